import { describe, expect, it } from "vitest";
import { encodeFunctions } from "../../src/runtime/wasm/function-set.ts";
import { reasonAgainst } from "../../src/runtime/wasm/snapshot-fit.ts";

const source = "ab".repeat(32);
const snapshot = { engine: source, functions: encodeFunctions([1, 200, 30, 17_000]) };
const cut = (...functions: number[]) =>
  ({ kind: "cut", source, functions: encodeFunctions(functions) }) as const;
const other = { source: "cd".repeat(32) };

describe("reasonAgainst", () => {
  it("has nothing against the engine that it was made for, nor against one that was cut of others only", () => {
    expect(reasonAgainst(snapshot, { kind: "full", source })).toBeUndefined();
    expect(reasonAgainst(snapshot, cut(1, 30, 200, 17_000))).toBeUndefined();
    expect(reasonAgainst(snapshot, cut(1, 2, 30, 200, 201, 17_000))).toBeUndefined();
  });

  it("names the functions that are missing, five at most", () => {
    expect(reasonAgainst(snapshot, cut(1, 200, 17_000))).toBe(
      "the deployed engine was cut of 1 of its functions (30)",
    );
    expect(reasonAgainst(snapshot, cut())).toBe(
      "the deployed engine was cut of 4 of its functions (1, 30, 200, 17000)",
    );
    const many = { engine: source, functions: encodeFunctions([9, 8, 7, 6, 5, 4]) };
    expect(reasonAgainst(many, cut(4))).toBe(
      "the deployed engine was cut of 5 of its functions (5, 6, 7, 8, 9)",
    );
    expect(reasonAgainst(many, cut())).toBe(
      "the deployed engine was cut of 6 of its functions (4, 5, 6, 7, 8, …)",
    );
  });

  it("names both engines where it was made for another, whatever that one was cut of", () => {
    const reason = "its snapshot was made for engine abababababab, deployed is cdcdcdcdcdcd";
    expect(reasonAgainst(snapshot, { kind: "full", ...other })).toBe(reason);
    expect(reasonAgainst(snapshot, { ...cut(1, 30, 200, 17_000), ...other })).toBe(reason);
  });

  it("says that there is none", () => {
    expect(reasonAgainst(undefined, { kind: "full", source })).toBe("the version has no snapshot");
    expect(reasonAgainst(undefined, cut())).toBe("the version has no snapshot");
  });
});
