// Describes the JSON type of a value, for messages about values of a wrong type.

/** @returns the type with its article, for example "a number" or "an array" */
export function describeType(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (Array.isArray(value)) return "an array";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}
