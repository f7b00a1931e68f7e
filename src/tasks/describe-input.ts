// What an element of a request's `inputs` is, for the message to whom sent another kind than the model takes.

export function describeInputType(raw: unknown): string {
  if (raw === null) return "null";
  if (typeof raw === "string") return "a text";
  if (Array.isArray(raw)) return "an array";
  return typeof raw === "object" && "b64" in raw ? "an image" : typeof raw;
}
