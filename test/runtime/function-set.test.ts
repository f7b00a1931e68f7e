import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  decodeFunctions,
  encodeFunctions,
  missingFunctions,
} from "../../src/runtime/wasm/function-set.ts";

/** onnxruntime-web's engine has 17,388 functions. */
const functions = fc.array(fc.nat({ max: 29_999 }), { maxLength: 400 });
const ascending = (numbers: Iterable<number>) => [...numbers].toSorted((a, b) => a - b);

describe("encodeFunctions", () => {
  it("comes back as the set that it was (property)", () => {
    fc.assert(
      fc.property(functions, (numbers) => {
        expect(decodeFunctions(encodeFunctions(numbers))).toEqual(new Set(numbers));
      }),
    );
    const aroundBytes = [0, 127, 128, 255, 256, 16_639, 16_640, 29_999];
    expect(decodeFunctions(encodeFunctions(aroundBytes))).toEqual(new Set(aroundBytes));
  });

  it("gives one text for one set, in whatever order and however often its members come (property)", () => {
    const shuffledWithRepeats = functions.chain((numbers) =>
      fc.tuple(
        fc.constant(numbers),
        fc.shuffledSubarray(numbers, { minLength: numbers.length }),
        fc.subarray(numbers),
      ),
    );
    fc.assert(
      fc.property(shuffledWithRepeats, ([numbers, shuffled, repeated]) => {
        expect(encodeFunctions([...shuffled, ...repeated])).toBe(encodeFunctions(numbers));
      }),
    );
  });

  it("gives different texts for different sets (property)", () => {
    fc.assert(
      fc.property(functions, functions, (one, other) => {
        const same = String(ascending(new Set(one))) === String(ascending(new Set(other)));
        expect(encodeFunctions(one) === encodeFunctions(other)).toBe(same);
      }),
    );
  });

  it("is short: neighbours take a byte each, before base64", () => {
    const neighbours = Array.from({ length: 3_000 }, (_, index) => 20_000 + index);
    expect(encodeFunctions(neighbours).length).toBeLessThanOrEqual(4 * Math.ceil(3_002 / 3));
    expect(encodeFunctions([])).toBe("");
  });
});

describe("decodeFunctions", () => {
  it("finds nothing in what is no text of it", () => {
    expect(decodeFunctions("not base64!")).toEqual(new Set());
    expect(decodeFunctions("")).toEqual(new Set());
  });
});

describe("missingFunctions", () => {
  it("is what is needed and not kept, in ascending order (property)", () => {
    fc.assert(
      fc.property(functions, functions, (needed, kept) => {
        const missing = ascending(new Set(needed)).filter((number) => !kept.includes(number));
        expect(missingFunctions(encodeFunctions(needed), encodeFunctions(kept))).toEqual(missing);
      }),
    );
  });

  it("is nothing where all that is needed is kept (property)", () => {
    fc.assert(
      fc.property(functions, functions, (needed, more) => {
        expect(
          missingFunctions(encodeFunctions(needed), encodeFunctions([...needed, ...more])),
        ).toEqual([]);
      }),
    );
  });
});
