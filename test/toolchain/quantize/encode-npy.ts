// Encodes NumPy arrays in version 1.0 of the format.
import { byteView, concatBytes } from "../../../src/core/bytes.ts";

export function encodeNpy(
  description: string,
  shape: readonly number[],
  data: ArrayBufferView,
): Uint8Array {
  const text = `{'descr': '${description}', 'fortran_order': False, 'shape': (${shape.map((size) => `${size},`).join(" ")}), }`;
  const header = new TextEncoder().encode(
    text.padEnd(Math.ceil((text.length + 11) / 64) * 64 - 11, " ").concat("\n"),
  );
  const prefix = Uint8Array.of(
    0x93,
    0x4e,
    0x55,
    0x4d,
    0x50,
    0x59,
    1,
    0,
    header.length & 0xff,
    header.length >> 8,
  );
  return concatBytes([prefix, header, byteView(data)]);
}
