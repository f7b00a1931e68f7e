import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fromBase64, toBase64 } from "../../src/core/base64.ts";
import { encodeLengthPrefixed, sha256Hex } from "../../src/core/hash.ts";

describe("sha256Hex", () => {
  it("gives the digests of FIPS 180-2", async () => {
    const digestOf = (text: string) => sha256Hex(new TextEncoder().encode(text));
    expect(await digestOf("abc")).toBe(
      "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    );
    expect(await digestOf("")).toBe(
      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    );
  });
});

describe("encodeLengthPrefixed", () => {
  it("never gives two lists the same bytes (property)", () => {
    const list = fc.array(fc.string({ maxLength: 4 }), { maxLength: 4 });
    fc.assert(
      fc.property(list, list, (a, b) => {
        const isEqual = Buffer.from(encodeLengthPrefixed(a)).equals(
          Buffer.from(encodeLengthPrefixed(b)),
        );
        expect(isEqual).toBe(JSON.stringify(a) === JSON.stringify(b));
      }),
    );
    expect(encodeLengthPrefixed(["ab", "c"])).not.toEqual(encodeLengthPrefixed(["a", "bc"]));
  });
});

describe("base64", () => {
  it("round-trips any bytes, and rejects other text (property)", () => {
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        expect([...(fromBase64(toBase64(bytes)) ?? [])]).toEqual([...bytes]);
      }),
    );
    expect(fromBase64("not base64!")).toBeUndefined();
  });
});
