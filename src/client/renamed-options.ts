// Deprecated option names: translates them to the current names, with one warning for each name.

const CURRENT_NAMES = {
  answers: "responseCache",
  offline: "staleIfError",
  direct: "prefersNearestRegion",
  wayMs: "roundTripMs",
  retries: "maxRetries",
  images: "imageDecoder",
} as const;

const warnedNames = new Set<string>();

/** Copies `options` with current names only. If an option has both names, its current name wins. */
export function withCurrentNames<Options extends object>(options: Options): Options {
  const current = { ...options } as Record<string, unknown>;
  for (const [oldName, name] of Object.entries(CURRENT_NAMES)) {
    if (!(oldName in current)) continue;
    current[name] ??= current[oldName];
    delete current[oldName];
    if (warnedNames.has(oldName)) continue;
    warnedNames.add(oldName);
    console.warn(`EdgeTier: the option \`${oldName}\` is deprecated. Use \`${name}\`.`);
  }
  return current as Options;
}
