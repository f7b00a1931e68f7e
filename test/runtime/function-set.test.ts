import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  decodeFunctionSet,
  encodeFunctionSet,
  findMissingFunctions,
} from "../../src/runtime/wasm/function-set.ts";

/** Function numbers around the 17,388 functions of onnxruntime-web's engine. */
const functionsArbitrary = fc.array(fc.nat({ max: 29_999 }), { maxLength: 400 });
const sortAscending = (numbers: Iterable<number>) => [...numbers].toSorted((a, b) => a - b);

describe("encodeFunctionSet", () => {
  it("round-trips (property)", () => {
    fc.assert(
      fc.property(functionsArbitrary, (numbers) => {
        expect(decodeFunctionSet(encodeFunctionSet(numbers))).toEqual(new Set(numbers));
      }),
    );
    const aroundBytes = [0, 127, 128, 255, 256, 16_639, 16_640, 29_999];
    expect(decodeFunctionSet(encodeFunctionSet(aroundBytes))).toEqual(new Set(aroundBytes));
  });

  it("gives one text per set, for any order and repetition of members (property)", () => {
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
      fc.property(functionsArbitrary, functionsArbitrary, (a, b) => {
        const isEqual = String(sortAscending(new Set(a))) === String(sortAscending(new Set(b)));
        expect(encodeFunctionSet(a) === encodeFunctionSet(b)).toBe(isEqual);
      }),
    );
  });

  it("needs one byte per neighboring function, before base64", () => {
    const neighbors = Array.from({ length: 3_000 }, (_, index) => 20_000 + index);
    expect(encodeFunctionSet(neighbors).length).toBeLessThanOrEqual(4 * Math.ceil(3_002 / 3));
    expect(encodeFunctionSet([])).toBe("");
  });
});

describe("decodeFunctionSet", () => {
  it("returns an empty set for invalid text", () => {
    expect(decodeFunctionSet("not base64!")).toEqual(new Set());
    expect(decodeFunctionSet("")).toEqual(new Set());
  });
});

describe("findMissingFunctions", () => {
  it("returns the required but unavailable functions in ascending order (property)", () => {
    fc.assert(
      fc.property(functionsArbitrary, functionsArbitrary, (required, available) => {
        const missing = sortAscending(new Set(required)).filter(
          (number) => !available.includes(number),
        );
        expect(
          findMissingFunctions(encodeFunctionSet(required), encodeFunctionSet(available)),
        ).toEqual(missing);
      }),
    );
  });

  it("returns nothing if all required functions are available (property)", () => {
    fc.assert(
      fc.property(functionsArbitrary, functionsArbitrary, (required, more) => {
        expect(
          findMissingFunctions(
            encodeFunctionSet(required),
            encodeFunctionSet([...required, ...more]),
          ),
        ).toEqual([]);
      }),
    );
  });
});
