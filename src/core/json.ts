// Reads JSON of unknown origin.

/** Parses JSON text. Returns undefined for text that is not JSON, so that a schema can reject it. */
export function tryParseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
