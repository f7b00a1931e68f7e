// Canonical JSON: sorted object keys and no white space, so that equal content has equal text and hashes.

/** @param value plain JSON data; numbers and strings use the form of JSON.stringify (as in RFC 8785) */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(sortKeys(value));
}

function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (typeof value !== "object" || value === null) return value;
  // `Object.fromEntries` defines own properties, so a key such as "__proto__" stays data.
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, inner]) => [key, sortKeys(inner)]),
  );
}
