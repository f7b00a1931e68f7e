// Every scenario, in the order of the table.
import type { Scenario } from "../lib/scenario.ts";
import { badTensors } from "./bad-tensors.ts";
import { bodies } from "./bodies.ts";
import { cacheFaults } from "./cache.ts";
import { callers } from "./callers.ts";
import { leavingClients, terminatedRegion } from "./leaving.ts";
import { modelNames } from "./model-names.ts";
import { wrongModels } from "./models.ts";
import { mutatedRequests } from "./mutated-requests.ts";
import { regionFaults } from "./region.ts";
import { secondRegion } from "./second-region.ts";
import { damagedSnapshots } from "./snapshots.ts";
import { soaks } from "./soak.ts";
import { storeFaults } from "./store.ts";

export const scenarios: readonly Scenario[] = [
  ...mutatedRequests,
  ...badTensors,
  ...bodies,
  ...modelNames,
  ...storeFaults,
  ...cacheFaults,
  ...regionFaults,
  ...secondRegion,
  ...wrongModels,
  ...leavingClients,
  ...damagedSnapshots,
  ...callers,
  ...terminatedRegion,
  ...soaks,
];
