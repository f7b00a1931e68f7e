// Embedding codec: round trips and truncated bytes.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { embeddingCodec } from "../../src/serving/embedding-codec.ts";

const { encode, decode } = embeddingCodec;
const embedding = fc.record({
  vector: fc.float32Array({ minLength: 1, maxLength: 16 }),
  tokenCount: fc.nat(),
  tier: fc.string({ unit: "grapheme", maxLength: 20 }),
});

describe("embeddingCodec", () => {
  it("decodes what it encoded, also from unaligned bytes", () => {
    fc.assert(
      fc.property(embedding, fc.nat(3), (value, offset) => {
        const bytes = encode(value);
        const moved = new Uint8Array(bytes.length + offset);
        moved.set(bytes, offset);
        expect(decode(moved.subarray(offset))).toEqual(value);
      }),
    );
  });

  it("decodes truncated bytes to undefined", () => {
    const whole = encode({ vector: Float32Array.of(1, 2), tokenCount: 3, tier: "edge" });
    for (const length of [0, 4, 5, 8, 9, 10, 16])
      expect(decode(whole.subarray(0, length))).toBeUndefined();
  });
});
