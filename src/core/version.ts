// EdgeTier's version. It repeats package.json, because the Worker does not bundle that file.

export const VERSION = "0.1.0";
