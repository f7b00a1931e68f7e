// ONNX files made wrong: bytes changed, left out, doubled, or taken from another model. The same for the same seed and index.
import { seededRandom } from "../../../src/toolchain/seeded-random.ts";

/** Files of test/fixtures. They are small, so that most mutations have an effect. */
export const MUTANT_SOURCES = [
  "toy.onnx",
  "int8-matmul.onnx",
  "identity-all.onnx",
  "bag-of-tokens.onnx",
  "signal.onnx",
  "string-identity.onnx",
  "zeros.onnx",
];

/** Varints with which lengths and dimensions become huge, negative or nothing. */
const EXTREME_VARINTS: readonly (readonly number[])[] = [
  [0],
  [0x7f],
  [0xff, 0xff, 0xff, 0xff, 0x07],
  [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
  [0x80, 0x80, 0x80, 0x80, 0x80, 0x20],
];

/** @returns the mutant of a number */
export function createModelMutator(
  seed: number,
  sources: readonly Uint8Array[],
): (index: number) => Uint8Array {
  return (index) => {
    const random = seededRandom(seed * 1_000_003 + index);
    const below = (limit: number) => Math.floor(random() * limit);
    const source = () => sources[below(sources.length)] ?? new Uint8Array();
    let bytes = [...source()];
    for (let times = 1 + below(4); times > 0; times--) {
      const at = below(bytes.length + 1);
      switch (below(6)) {
        case 0:
        case 1:
          bytes[Math.min(at, bytes.length - 1)] = below(256);
          break;
        case 2:
          bytes = bytes.slice(0, at);
          break;
        case 3:
          bytes.splice(at, 1 + below(8));
          break;
        case 4:
          bytes.splice(at, 1, ...(EXTREME_VARINTS[below(EXTREME_VARINTS.length)] ?? []));
          break;
        default: {
          const other = source();
          const from = below(other.length);
          bytes.splice(at, 0, ...other.subarray(from, from + below(40)));
        }
      }
    }
    return Uint8Array.from(bytes);
  };
}
