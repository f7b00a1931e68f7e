// `edgetier model build <folder>`: checks a project and makes everything that it is published with. So far that is the
// snapshots of its edge tiers.

import { defineCommand } from "citty";
import { command as snapshot } from "./model-snapshot.ts";

export const command = defineCommand({ ...snapshot, meta: { name: "build", description: "Check a project and make what it is published with: the snapshots of its edge tiers" } });
