import { describe, expect, it } from "vitest";
import { encodeFunctionSet } from "../../src/runtime/wasm/function-set.ts";
import { findIncompatibility } from "../../src/runtime/wasm/snapshot-compatibility.ts";

const source = "ab".repeat(32);
const snapshot = { engine: source, functions: encodeFunctionSet([1, 200, 30, 17_000]) };
const strippedEngine = (...functions: number[]) =>
  ({ kind: "cut", source, functions: encodeFunctionSet(functions) }) as const;
const otherEngine = { source: "cd".repeat(32) };

describe("findIncompatibility", () => {
  it("accepts the source engine, and an engine from which only other functions were cut", () => {
    expect(findIncompatibility(snapshot, { kind: "full", source })).toBeUndefined();
    expect(findIncompatibility(snapshot, strippedEngine(1, 30, 200, 17_000))).toBeUndefined();
    expect(
      findIncompatibility(snapshot, strippedEngine(1, 2, 30, 200, 201, 17_000)),
    ).toBeUndefined();
  });

  it("names at most five missing functions", () => {
    expect(findIncompatibility(snapshot, strippedEngine(1, 200, 17_000))).toMatch(
      /\b1 of .*\(30\)$/,
    );
    expect(findIncompatibility(snapshot, strippedEngine())).toMatch(
      /\b4 of .*\(1, 30, 200, 17000\)$/,
    );
    const many = { engine: source, functions: encodeFunctionSet([9, 8, 7, 6, 5, 4]) };
    expect(findIncompatibility(many, strippedEngine(4))).toMatch(/\b5 of .*\(5, 6, 7, 8, 9\)$/);
    expect(findIncompatibility(many, strippedEngine())).toMatch(/\b6 of .*\(4, 5, 6, 7, 8, …\)$/);
  });

  it("names both engines if the snapshot is for another engine", () => {
    const reason = /abababababab\b.*\bcdcdcdcdcdcd$/;
    expect(findIncompatibility(snapshot, { kind: "full", ...otherEngine })).toMatch(reason);
    expect(
      findIncompatibility(snapshot, { ...strippedEngine(1, 30, 200, 17_000), ...otherEngine }),
    ).toMatch(reason);
  });

  it("reports a missing snapshot", () => {
    expect(findIncompatibility(undefined, { kind: "full", source })).toEqual(expect.any(String));
    expect(findIncompatibility(undefined, strippedEngine())).toEqual(expect.any(String));
  });
});
