import { describe, expect, it } from "vitest";
import { encodeFunctionSet } from "../../src/runtime/wasm/function-set.ts";
import { findIncompatibility } from "../../src/runtime/wasm/snapshot-compatibility.ts";

const source = "ab".repeat(32);
const snapshot = { engine: source, functions: encodeFunctionSet([1, 200, 30, 17_000]) };
const strippedEngine = (...functions: number[]) =>
  ({ kind: "cut", source, functions: encodeFunctionSet(functions) }) as const;
const otherEngine = { source: "cd".repeat(32) };

describe("reasonAgainst", () => {
  it("has nothing against the engine that it was made for, nor against one that was cut of others only", () => {
    expect(findIncompatibility(snapshot, { kind: "full", source })).toBeUndefined();
    expect(findIncompatibility(snapshot, strippedEngine(1, 30, 200, 17_000))).toBeUndefined();
    expect(
      findIncompatibility(snapshot, strippedEngine(1, 2, 30, 200, 201, 17_000)),
    ).toBeUndefined();
  });

  it("names the functions that are missing, five at most", () => {
    expect(findIncompatibility(snapshot, strippedEngine(1, 200, 17_000))).toBe(
      "the deployed engine was cut of 1 of its functions (30)",
    );
    expect(findIncompatibility(snapshot, strippedEngine())).toBe(
      "the deployed engine was cut of 4 of its functions (1, 30, 200, 17000)",
    );
    const many = { engine: source, functions: encodeFunctionSet([9, 8, 7, 6, 5, 4]) };
    expect(findIncompatibility(many, strippedEngine(4))).toBe(
      "the deployed engine was cut of 5 of its functions (5, 6, 7, 8, 9)",
    );
    expect(findIncompatibility(many, strippedEngine())).toBe(
      "the deployed engine was cut of 6 of its functions (4, 5, 6, 7, 8, …)",
    );
  });

  it("names both engines where it was made for another, whatever that one was cut of", () => {
    const reason = "its snapshot was made for engine abababababab, deployed is cdcdcdcdcdcd";
    expect(findIncompatibility(snapshot, { kind: "full", ...otherEngine })).toBe(reason);
    expect(
      findIncompatibility(snapshot, { ...strippedEngine(1, 30, 200, 17_000), ...otherEngine }),
    ).toBe(reason);
  });

  it("says that there is none", () => {
    expect(findIncompatibility(undefined, { kind: "full", source })).toBe(
      "the version has no snapshot",
    );
    expect(findIncompatibility(undefined, strippedEngine())).toBe("the version has no snapshot");
  });
});
