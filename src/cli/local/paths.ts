// The project's own files and folders, wherever the command is called from.

import { join } from "node:path";

export const PROJECT_ROOT = join(import.meta.dirname, "../../..");
export const ENGINE_FOLDER = join(PROJECT_ROOT, "dist/engine");
export const MODELS_FOLDER = join(PROJECT_ROOT, "models");
export const STATE_FOLDER = join(PROJECT_ROOT, ".edgetier");
export const WRANGLER_CONFIG = join(PROJECT_ROOT, "wrangler.toml");
export const REGION_ENTRY = join(PROJECT_ROOT, "functions/region/main.ts");
