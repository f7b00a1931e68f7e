// The project's own files and folders: this repository's, wherever the command is called from; of the npm package, which is
// compiled, those of the folder that it is called in.

import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const IS_PACKAGED = import.meta.filename.endsWith(".js");
/** Where `src` and `functions` are. */
export const SOURCE_ROOT = join(import.meta.dirname, "../../..");
export const PROJECT_ROOT = IS_PACKAGED ? process.cwd() : SOURCE_ROOT;
/** The full engine. */
export const ENGINE_FOLDER = join(PROJECT_ROOT, "dist/engine");
/** What the Worker bundles. */
export const DEPLOYMENT_FOLDER = join(PROJECT_ROOT, "dist/edge");
/** What the Worker serves at `/`; wrangler.toml names it. */
export const ASSETS_FOLDER = join(PROJECT_ROOT, "dist/assets");
export const PLAYGROUND_FOLDER = join(SOURCE_ROOT, "src/playground");
export const SNAPSHOTS_FOLDER = join(PROJECT_ROOT, "dist/snapshots");
export const MODELS_FOLDER = join(PROJECT_ROOT, "models");
export const STATE_FOLDER = join(PROJECT_ROOT, ".edgetier");
export const WRANGLER_CONFIG = join(PROJECT_ROOT, "wrangler.toml");
export const REGION_ENTRY = fileURLToPath(
  new URL("../../../functions/region/main.ts", import.meta.url),
);
