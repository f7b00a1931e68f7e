// Paths of the project: this repository's from any working folder. In the compiled npm package, the working folder's.

import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const IS_PACKAGED = import.meta.filename.endsWith(".js");
/** Folder that contains `src` and `functions`. */
export const SOURCE_ROOT = join(import.meta.dirname, "../../..");
export const PROJECT_ROOT = IS_PACKAGED ? process.cwd() : SOURCE_ROOT;
/** Folder of the full engine. */
export const ENGINE_FOLDER = join(PROJECT_ROOT, "dist/engine");
/** Folder that the Worker bundles. */
export const DEPLOYMENT_FOLDER = join(PROJECT_ROOT, "dist/edge");
/** Static assets that the Worker serves at `/`; wrangler.toml names the folder. */
export const ASSETS_FOLDER = join(PROJECT_ROOT, "dist/assets");
export const PLAYGROUND_FOLDER = join(SOURCE_ROOT, "src/playground");
export const SNAPSHOTS_FOLDER = join(PROJECT_ROOT, "dist/snapshots");
export const MODELS_FOLDER = join(PROJECT_ROOT, "models");
export const STATE_FOLDER = join(PROJECT_ROOT, ".edgetier");
export const WRANGLER_CONFIG = join(PROJECT_ROOT, "wrangler.toml");
export const REGION_ENTRY = fileURLToPath(
  new URL("../../../functions/region/main.ts", import.meta.url),
);
