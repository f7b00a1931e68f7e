import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  decodeFunctionSet,
  encodeFunctionSet,
  findMissingFunctions,
} from "../../src/runtime/wasm/function-set.ts";

/** onnxruntime-web's engine has 17,388 functions. */
const functionsArbitrary = fc.array(fc.nat({ max: 29_999 }), { maxLength: 400 });
const sortAscending = (numbers: Iterable<number>) => [...numbers].toSorted((a, b) => a - b);

describe("encodeFunctions", () => {
  it("comes back as the set that it was (property)", () => {
    fc.assert(
      fc.property(functionsArbitrary, (numbers) => {
        expect(decodeFunctionSet(encodeFunctionSet(numbers))).toEqual(new Set(numbers));
      }),
    );
    const aroundBytes = [0, 127, 128, 255, 256, 16_639, 16_640, 29_999];
    expect(decodeFunctionSet(encodeFunctionSet(aroundBytes))).toEqual(new Set(aroundBytes));
  });

  it("gives one text for one set, in whatever order and however often its members come (property)", () => {
    const shuffledWithRepeats = functionsArbitrary.chain((numbers) =>
      fc.tuple(
        fc.constant(numbers),
        fc.shuffledSubarray(numbers, { minLength: numbers.length }),
        fc.subarray(numbers),
      ),
    );
    fc.assert(
      fc.property(shuffledWithRepeats, ([numbers, shuffled, repeated]) => {
        expect(encodeFunctionSet([...shuffled, ...repeated])).toBe(encodeFunctionSet(numbers));
      }),
    );
  });

  it("gives different texts for different sets (property)", () => {
    fc.assert(
      fc.property(functionsArbitrary, functionsArbitrary, (one, other) => {
        const same = String(sortAscending(new Set(one))) === String(sortAscending(new Set(other)));
        expect(encodeFunctionSet(one) === encodeFunctionSet(other)).toBe(same);
      }),
    );
  });

  it("is short: neighbours take a byte each, before base64", () => {
    const neighbours = Array.from({ length: 3_000 }, (_, index) => 20_000 + index);
    expect(encodeFunctionSet(neighbours).length).toBeLessThanOrEqual(4 * Math.ceil(3_002 / 3));
    expect(encodeFunctionSet([])).toBe("");
  });
});

describe("decodeFunctions", () => {
  it("finds nothing in what is no text of it", () => {
    expect(decodeFunctionSet("not base64!")).toEqual(new Set());
    expect(decodeFunctionSet("")).toEqual(new Set());
  });
});

describe("missingFunctions", () => {
  it("is what is needed and not kept, in ascending order (property)", () => {
    fc.assert(
      fc.property(functionsArbitrary, functionsArbitrary, (needed, kept) => {
        const missing = sortAscending(new Set(needed)).filter((number) => !kept.includes(number));
        expect(findMissingFunctions(encodeFunctionSet(needed), encodeFunctionSet(kept))).toEqual(
          missing,
        );
      }),
    );
  });

  it("is nothing where all that is needed is kept (property)", () => {
    fc.assert(
      fc.property(functionsArbitrary, functionsArbitrary, (needed, more) => {
        expect(
          findMissingFunctions(encodeFunctionSet(needed), encodeFunctionSet([...needed, ...more])),
        ).toEqual([]);
      }),
    );
  });
});
