// What a size budget is spent on: which functions are kept beyond those that were entered.
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { computeCallClosure } from "../../../src/toolchain/engine/call-closure.ts";
import { stripToBudget } from "../../../src/toolchain/engine/strip-to-budget.ts";
import { parseWasmModule, type WasmModule } from "../../../src/toolchain/engine/wasm-module.ts";
import { assemble } from "../../support/small-wasm-module.ts";

/** What a function calls, and of how many instructions its body is beside. */
interface Sketch {
  readonly calls?: readonly string[];
  readonly nops?: number;
  /** Stores of other numbers each time, which gzip cannot shorten. */
  readonly stores?: number;
}

/** Only `root` is exported: another function stays if it is kept and called. */
function moduleOf(sketches: Readonly<Record<string, Sketch>>) {
  const names = ["imported", ...Object.keys(sketches)];
  const functions = Object.entries(sketches).map(([name, { calls = [], nops = 0, stores = 0 }]) => {
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
  const number = (name: string) => names.indexOf(name);
  return {
    module,
    number,
    sizeOf: (name: string) => module.functionBodies[number(name) - 1]?.byteLength ?? 0,
    keptOf: (keep: ReadonlySet<number>) => names.filter((name) => keep.has(number(name))),
  };
}

describe("computeCallClosure", () => {
  const sketches = {
    root: { calls: ["imported", "large", "small", "root", "small"] },
    small: { calls: ["far", "large"], nops: 10 },
    large: { calls: ["farSmall"], nops: 1000 },
    far: { calls: ["further"], nops: 100 },
    farSmall: { nops: 50 },
    further: { nops: 2 },
    unrelated: { calls: ["root"] },
  };
  const { module, number, sizeOf, keptOf } = moduleOf(sketches);
  const close = (spareBytes: number, entered = ["root"]) => {
    const { keepFunctions: keep, ...rest } = computeCallClosure(
      module,
      new Set(entered.map(number)),
      spareBytes,
    );
    return { kept: keptOf(keep), ...rest };
  };

  it("keeps what was entered, imports left out, and counts what it has no room for", () => {
    expect(close(0)).toEqual({ kept: ["root"], enteredCount: 1, calleeCount: 0, omittedCount: 2 });
    expect(close(0, ["imported", "unrelated", "far"])).toEqual({
      kept: ["far", "unrelated"],
      enteredCount: 2,
      calleeCount: 0,
      omittedCount: 2,
    });
    expect(close(0, [])).toEqual({ kept: [], enteredCount: 0, calleeCount: 0, omittedCount: 0 });
  });

  it("adds what they call, what that calls, and so on, while there is room", () => {
    expect(close(1_000_000)).toEqual({
      kept: ["root", "small", "large", "far", "farSmall", "further"],
      enteredCount: 1,
      calleeCount: 5,
      omittedCount: 0,
    });
  });

  it("takes the smallest first", () => {
    expect(close(sizeOf("small"))).toMatchObject({ kept: ["root", "small"] });
    expect(close(sizeOf("small") - 1)).toMatchObject({ kept: ["root"], omittedCount: 2 });
    expect(close(sizeOf("small") + sizeOf("large"))).toMatchObject({
      kept: ["root", "small", "large"],
    });
  });

  it("takes the nearest before the smallest", () => {
    const beside = sizeOf("small") + sizeOf("large");
    expect(sizeOf("further")).toBeLessThan(sizeOf("small"));
    expect(close(beside + sizeOf("further"))).toMatchObject({ kept: ["root", "small", "large"] }); // the way to `further` leads through `far`
    expect(close(beside + sizeOf("farSmall"))).toMatchObject({
      kept: ["root", "small", "large", "farSmall"],
    });
    expect(close(sizeOf("small") + sizeOf("far") + sizeOf("further"))).toEqual({
      kept: ["root", "small", "far", "further"],
      enteredCount: 1,
      calleeCount: 3,
      omittedCount: 1,
    });
  });

  it("leaves alone what dispatchers call, those that were entered and those that were called", () => {
    const dispatching = (nops: number) => {
      const one = moduleOf({
        root: { calls: ["plain", "dispatcher"] },
        dispatcher: { calls: ["forOtherTypes"], nops },
        plain: {},
        forOtherTypes: {},
      });
      return {
        size: one.sizeOf("dispatcher"),
        kept: (...entered: string[]) =>
          one.keptOf(
            computeCallClosure(one.module, new Set(entered.map(one.number)), 1_000_000)
              .keepFunctions,
          ),
      };
    };
    const overhead = dispatching(0).size;
    const [below, at] = [dispatching(65_535 - overhead), dispatching(65_536 - overhead)];
    expect([below.size, at.size]).toEqual([65_535, 65_536]);
    expect([below.kept("root"), at.kept("root")]).toEqual([
      ["root", "dispatcher", "plain", "forOtherTypes"],
      ["root", "dispatcher", "plain"],
    ]);
    expect([below.kept("dispatcher"), at.kept("dispatcher")]).toEqual([
      ["dispatcher", "forOtherTypes"],
      ["dispatcher"],
    ]);
    expect(at.kept("root", "dispatcher", "forOtherTypes")).toEqual([
      "root",
      "dispatcher",
      "plain",
      "forOtherTypes",
    ]);
  });
});

describe("stripToBudget", () => {
  /** Each needs a larger step of the spare bytes than those before it. */
  const { module, number, keptOf, sizeOf } = moduleOf({
    root: { calls: ["a", "b", "c", "d", "e"], stores: 1 },
    a: { stores: 300 },
    b: { stores: 650 },
    c: { stores: 1300 },
    d: { stores: 2600 },
    e: { stores: 5200 },
  });
  const fit = (target: WasmModule, maxGzipBytes: number) =>
    stripToBudget(
      target,
      new Set([number("root")]),
      { emptiedExports: [], globalValues: [] },
      maxGzipBytes,
    );
  const widest = fit(module, 1_000_000);

  it("takes all there is where the budget allows it", () => {
    expect(keptOf(widest.keepFunctions)).toEqual(["root", "a", "b", "c", "d", "e"]);
    expect(widest.gzipBytes).toBe(gzipSync(widest.wasm, { level: 9 }).byteLength);
    expect(parseWasmModule(widest.wasm).functionBodies).toHaveLength(6);
  });

  it("takes the largest spare that fits: at the size itself, not one byte below it", () => {
    const steps = [widest];
    for (let last = widest; keptOf(last.keepFunctions).length > 1; steps.push(last)) {
      expect(fit(module, last.gzipBytes).gzipBytes).toBe(last.gzipBytes);
      const tighter = fit(module, last.gzipBytes - 1);
      expect(tighter.gzipBytes).toBeLessThan(last.gzipBytes);
      last = tighter;
    }
    expect(steps.map(({ keepFunctions: keep }) => keptOf(keep).slice(1).join(""))).toEqual([
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

  it("keeps what was entered even where that is beyond the budget", () => {
    const least = fit(module, 1);
    expect(keptOf(least.keepFunctions)).toEqual(["root"]);
    expect(least.gzipBytes).toBeGreaterThan(1);
    expect(parseWasmModule(least.wasm).functionBodies).toHaveLength(1);
  });
});
