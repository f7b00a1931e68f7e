// SHA-256 through Web Crypto, and a length-prefixed encoding to hash several fields as one.

const encoder = new TextEncoder();

export function toHex(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += byte.toString(16).padStart(2, "0");
  return text;
}

export async function sha256Hex(bytes: Uint8Array): Promise<string> {
  return toHex(
    new Uint8Array(await crypto.subtle.digest("SHA-256", bytes as Uint8Array<ArrayBuffer>)),
  );
}

/**
 * Joins fields so that no two different lists give the same bytes. Each field follows its length
 * as an unsigned 32-bit little-endian number. Strings are UTF-8.
 */
export function encodeLengthPrefixed(
  fields: readonly (string | Uint8Array)[],
): Uint8Array<ArrayBuffer> {
  const parts = fields.map((field) => (typeof field === "string" ? encoder.encode(field) : field));
  const joined = new Uint8Array(parts.reduce((total, part) => total + 4 + part.byteLength, 0));
  const view = new DataView(joined.buffer);
  let offset = 0;
  for (const part of parts) {
    view.setUint32(offset, part.byteLength, true);
    joined.set(part, offset + 4);
    offset += 4 + part.byteLength;
  }
  return joined;
}
