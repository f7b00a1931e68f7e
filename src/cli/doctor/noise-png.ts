// Noise images: creates PNG files of random pixels, which compress badly and are a worst case for decoders.

import { crc32, deflateSync } from "node:zlib";

const SIGNATURE = Buffer.from("89504e470d0a1a0a", "hex");
const RGB = 2;

export function createNoisePng(
  width: number,
  height: number,
  random: () => number,
): Uint8Array<ArrayBuffer> {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, RGB], 8);
  const rows = Buffer.alloc(height * (1 + width * 3));
  // Every row begins with its filter type; 0 is none.
  for (let offset = 0; offset < rows.length; offset++)
    rows[offset] = offset % (1 + width * 3) === 0 ? 0 : Math.floor(random() * 256);
  return new Uint8Array(
    Buffer.concat([
      SIGNATURE,
      chunk("IHDR", header),
      chunk("IDAT", deflateSync(rows)),
      chunk("IEND", Buffer.alloc(0)),
    ]),
  );
}

function chunk(name: string, data: Buffer): Buffer {
  const [length, checksum] = [Buffer.alloc(4), Buffer.alloc(4)];
  const typeAndData = Buffer.concat([Buffer.from(name, "latin1"), data]);
  length.writeUInt32BE(data.length);
  checksum.writeUInt32BE(crc32(typeAndData));
  return Buffer.concat([length, typeAndData, checksum]);
}
