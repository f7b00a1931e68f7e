// The project's own files and folders, wherever the command is called from.

import { join } from "node:path";

export const PROJECT_ROOT = join(import.meta.dirname, "../../..");
/** The full engine. */
export const ENGINE_FOLDER = join(PROJECT_ROOT, "dist/engine");
/** What the Worker bundles. */
export const DEPLOYMENT_FOLDER = join(PROJECT_ROOT, "dist/edge");
/** What the Worker serves at `/`; wrangler.toml names it. */
export const ASSETS_FOLDER = join(PROJECT_ROOT, "dist/assets");
export const PLAYGROUND_FOLDER = join(PROJECT_ROOT, "src/playground");
export const SNAPSHOTS_FOLDER = join(PROJECT_ROOT, "dist/snapshots");
export const MODELS_FOLDER = join(PROJECT_ROOT, "models");
export const STATE_FOLDER = join(PROJECT_ROOT, ".edgetier");
export const WRANGLER_CONFIG = join(PROJECT_ROOT, "wrangler.toml");
export const REGION_ENTRY = join(PROJECT_ROOT, "functions/region/main.ts");
