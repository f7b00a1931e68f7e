// Size budgets: which functions are kept beyond the entered ones.
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { computeCallClosure } from "../../../src/toolchain/engine/call-closure.ts";
import { stripToBudget } from "../../../src/toolchain/engine/strip-to-budget.ts";
import { parseWasmModule, type WasmModule } from "../../../src/toolchain/engine/wasm-module.ts";
import { assemble } from "../../support/small-wasm-module.ts";

/** A function of a test module: its calls and its further instructions. */
interface FunctionSpec {
  readonly calls?: readonly string[];
  readonly nops?: number;
  /** Stores of different numbers, which gzip cannot compress. */
  readonly stores?: number;
}

/** Builds a module that exports only `root`, so that another function stays only if it is kept and called. */
function buildModule(specs: Readonly<Record<string, FunctionSpec>>) {
  const names = ["imported", ...Object.keys(specs)];
  const functions = Object.entries(specs).map(([name, { calls = [], nops = 0, stores = 0 }]) => {
    const numbers = Array.from(
      { length: stores },
      (_, index) =>
        `(i32.store (i32.const ${4 * index}) (i32.const ${Math.imul(index + name.length * 1_000_003, 0x9e3779b1)}))`,
    );
    return `(func $${name} ${"(nop)".repeat(nops)} ${numbers.join("")} ${calls.map((callee) => `(call $${callee})`).join("")})`;
  });
  const module = parseWasmModule(
    assemble(
      `(module (import "e" "imported" (func $imported)) (import "e" "m" (memory 1 2)) (table (export "table") 1 1 funcref) (export "root" (func $root)) ${functions.join("\n")})`,
    ),
  );
  const indexOf = (name: string) => names.indexOf(name);
  return {
    module,
    indexOf,
    sizeOf: (name: string) => module.functionBodies[indexOf(name) - 1]?.byteLength ?? 0,
    namesOf: (indices: ReadonlySet<number>) => names.filter((name) => indices.has(indexOf(name))),
  };
}

const callGraph = buildModule({
  root: { calls: ["imported", "large", "small", "root", "small"] },
  small: { calls: ["far", "large"], nops: 10 },
  large: { calls: ["farSmall"], nops: 1000 },
  far: { calls: ["further"], nops: 100 },
  farSmall: { nops: 50 },
  further: { nops: 2 },
  unrelated: { calls: ["root"] },
});
const computeClosure = (spareBytes: number, entered = ["root"]) => {
  const { keepFunctions, ...counts } = computeCallClosure(
    callGraph.module,
    new Set(entered.map(callGraph.indexOf)),
    spareBytes,
  );
  return { kept: callGraph.namesOf(keepFunctions), ...counts };
};
describe("computeCallClosure", () => {
  const { sizeOf } = callGraph;

  it("keeps entered functions without imports, and counts those that do not fit", () => {
    expect(computeClosure(0)).toEqual({
      kept: ["root"],
      enteredCount: 1,
      calleeCount: 0,
      omittedCount: 2,
    });
    expect(computeClosure(0, ["imported", "unrelated", "far"])).toEqual({
      kept: ["far", "unrelated"],
      enteredCount: 2,
      calleeCount: 0,
      omittedCount: 2,
    });
    expect(computeClosure(0, [])).toEqual({
      kept: [],
      enteredCount: 0,
      calleeCount: 0,
      omittedCount: 0,
    });
  });

  it("adds callees, their callees, and so on, within the budget", () => {
    expect(computeClosure(1_000_000)).toEqual({
      kept: ["root", "small", "large", "far", "farSmall", "further"],
      enteredCount: 1,
      calleeCount: 5,
      omittedCount: 0,
    });
  });

  it("adds the smallest callees first", () => {
    expect(computeClosure(sizeOf("small"))).toMatchObject({ kept: ["root", "small"] });
    expect(computeClosure(sizeOf("small") - 1)).toMatchObject({ kept: ["root"], omittedCount: 2 });
    expect(computeClosure(sizeOf("small") + sizeOf("large"))).toMatchObject({
      kept: ["root", "small", "large"],
    });
  });

  it("adds the nearest callees before the smallest", () => {
    const directCallees = sizeOf("small") + sizeOf("large");
    expect(sizeOf("further")).toBeLessThan(sizeOf("small"));
    // The path to `further` leads through `far`, which does not fit.
    expect(computeClosure(directCallees + sizeOf("further"))).toMatchObject({
      kept: ["root", "small", "large"],
    });
    expect(computeClosure(directCallees + sizeOf("farSmall"))).toMatchObject({
      kept: ["root", "small", "large", "farSmall"],
    });
    expect(computeClosure(sizeOf("small") + sizeOf("far") + sizeOf("further"))).toEqual({
      kept: ["root", "small", "far", "further"],
      enteredCount: 1,
      calleeCount: 3,
      omittedCount: 1,
    });
  });
});

describe("computeCallClosure with dispatchers", () => {
  const buildDispatching = (nops: number) => {
    const { module, indexOf, sizeOf, namesOf } = buildModule({
      root: { calls: ["plain", "dispatcher"] },
      dispatcher: { calls: ["forOtherTypes"], nops },
      plain: {},
      forOtherTypes: {},
    });
    return {
      size: sizeOf("dispatcher"),
      keep: (...entered: string[]) =>
        namesOf(computeCallClosure(module, new Set(entered.map(indexOf)), 1_000_000).keepFunctions),
    };
  };
  const overhead = buildDispatching(0).size;
  const belowLimit = buildDispatching(65_535 - overhead);
  const atLimit = buildDispatching(65_536 - overhead);

  it("adds the callees of a function below the size of a dispatcher", () => {
    expect(belowLimit.size).toBe(65_535);
    expect(belowLimit.keep("root")).toEqual(["root", "dispatcher", "plain", "forOtherTypes"]);
    expect(belowLimit.keep("dispatcher")).toEqual(["dispatcher", "forOtherTypes"]);
  });

  it("adds no callees of a dispatcher, whether it was entered or called", () => {
    expect(atLimit.size).toBe(65_536);
    expect(atLimit.keep("root")).toEqual(["root", "dispatcher", "plain"]);
    expect(atLimit.keep("dispatcher")).toEqual(["dispatcher"]);
  });

  it("keeps entered callees of a dispatcher", () => {
    expect(atLimit.keep("root", "dispatcher", "forOtherTypes")).toEqual([
      "root",
      "dispatcher",
      "plain",
      "forOtherTypes",
    ]);
  });
});

describe("stripToBudget", () => {
  /** Each function needs a larger step of spare bytes than the previous one. */
  const { module, indexOf, namesOf, sizeOf } = buildModule({
    root: { calls: ["a", "b", "c", "d", "e"], stores: 1 },
    a: { stores: 300 },
    b: { stores: 650 },
    c: { stores: 1300 },
    d: { stores: 2600 },
    e: { stores: 5200 },
  });
  const fitTo = (target: WasmModule, maxGzipBytes: number) =>
    stripToBudget(
      target,
      new Set([indexOf("root")]),
      { emptiedExports: [], globalValues: [] },
      maxGzipBytes,
    );
  const widest = fitTo(module, 1_000_000);

  it("keeps all callees if the budget allows it", () => {
    expect(namesOf(widest.keepFunctions)).toEqual(["root", "a", "b", "c", "d", "e"]);
    expect(widest.gzipBytes).toBe(gzipSync(widest.wasm, { level: 9 }).byteLength);
    expect(parseWasmModule(widest.wasm).functionBodies).toHaveLength(6);
  });

  it("chooses the largest spare size that fits the budget, to the byte", () => {
    const steps = [widest];
    for (let last = widest; namesOf(last.keepFunctions).length > 1; steps.push(last)) {
      expect(fitTo(module, last.gzipBytes).gzipBytes).toBe(last.gzipBytes);
      const tighter = fitTo(module, last.gzipBytes - 1);
      expect(tighter.gzipBytes).toBeLessThan(last.gzipBytes);
      last = tighter;
    }
    expect(steps.map(({ keepFunctions }) => namesOf(keepFunctions).slice(1).join(""))).toEqual([
      "abcde",
      "abcd",
      "abc",
      "ab",
      "a",
      "",
    ]);
    const sizes = ["a", "b", "c", "d", "e"].map(sizeOf);
    const sums = sizes.map((_, index) =>
      sizes.slice(0, index + 1).reduce((sum, size) => sum + size, 0),
    );
    expect(sums.map((sum) => 2 ** Math.ceil(Math.log2(sum)))).toEqual([
      4_096, 16_384, 32_768, 65_536, 131_072,
    ]);
  });

  it("keeps entered functions even if they exceed the budget", () => {
    const smallest = fitTo(module, 1);
    expect(namesOf(smallest.keepFunctions)).toEqual(["root"]);
    expect(smallest.gzipBytes).toBeGreaterThan(1);
    expect(parseWasmModule(smallest.wasm).functionBodies).toHaveLength(1);
  });
});
