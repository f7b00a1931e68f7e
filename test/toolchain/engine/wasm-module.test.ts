// WebAssembly modules: parsing, encoding, instrumenting and stripping. The real engine is reproduced byte for byte, and a
// small module runs as expected.
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { ENGINE_FOLDER } from "../../../src/cli/local/paths.ts";
import { STRIPPED_FUNCTION_EXPORT, LATEST_SLOT_EXPORT } from "../../../src/runtime/wasm/traps.ts";
import {
  ENTRY_FLAGS_OFFSET,
  globalExportName,
  instrumentFunctions,
} from "../../../src/toolchain/engine/instrument-functions.ts";
import { prepareEngine } from "../../../src/toolchain/engine/prepare-engine.ts";
import { stripFunctions } from "../../../src/toolchain/engine/strip-functions.ts";
import {
  encodeWasmModule,
  parseWasmModule,
  SECTION_ID,
  type WasmModule,
} from "../../../src/toolchain/engine/wasm-module.ts";
import { propertyRuns } from "../../support/property-runs.ts";
import {
  assemble,
  functionNameOf,
  functionIndexesOf,
  instantiateSmallModule,
  type SmallWasmInstance,
} from "../../support/small-wasm-module.ts";

const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");
const wasm = assemble();
/** Export that initializes memory. */
const INITIALIZER = "initialize";
const readGlobal = (engine: SmallWasmInstance, name: string): unknown =>
  (engine.exports[name] as WebAssembly.Global).value;

describe("parseWasmModule and encodeWasmModule", () => {
  it("reproduces onnxruntime-web's engine, and the full engine made of it", async () => {
    const { sha256: prepared } = await prepareEngine({ outDir: ENGINE_FOLDER });
    expect(
      sha256(encodeWasmModule(parseWasmModule(await readFile(join(ENGINE_FOLDER, "engine.wasm"))))),
    ).toBe(prepared);
    const original = await readFile(
      createRequire(import.meta.url).resolve("onnxruntime-web/ort-wasm-simd-threaded.wasm"),
    );
    expect(sha256(encodeWasmModule(parseWasmModule(original)))).toBe(sha256(original));
  }, 60_000);

  it("reproduces slots with gaps, negative numbers, passive data and a start function", () => {
    const module = parseWasmModule(wasm);
    expect(module).toMatchObject({
      importedFunctionCount: 1,
      memory: { initialPages: 2, maximumPages: 65_536, isShared: false },
      startFunction: 1,
    });
    expect(module.tableSlots.map((index) => index && functionNameOf(index))).toEqual([
      undefined,
      "add",
      "multiply",
      undefined,
      undefined,
      "subtract",
      undefined,
      undefined,
    ]);
    expect(module.globals).toEqual([
      { mutable: true, value: 4096 },
      { mutable: true, value: -70_000 },
      { mutable: false, value: 7 },
    ]);
    expect(Buffer.from(encodeWasmModule(module)).equals(wasm)).toBe(true);
  });

  it("has changed memory limits", async () => {
    const module = parseWasmModule(wasm);
    const smaller = encodeWasmModule({ ...module, memory: { ...module.memory, initialPages: 1 } });
    await expect(instantiateSmallModule(wasm, 1)).rejects.toThrow(WebAssembly.LinkError);
    expect((await instantiateSmallModule(smaller, 1)).call("sum", 4)).toBe(10);
  });
});

describe("parseWasmModule", () => {
  it.each([
    ["a truncated module", wasm.subarray(0, wasm.byteLength - 1), /truncated/],
    ["a module without a memory", assemble("(module (table 1 1 funcref))"), /memory/],
    ["a memory without a maximum", assemble('(module (import "e" "m" (memory 1)))'), /limits.* 0/],
    [
      "an imported global",
      assemble('(module (import "e" "m" (memory 1 2)) (import "e" "g" (global i32)))'),
      /kind 3/,
    ],
    ["a module without a table", assemble('(module (import "e" "m" (memory 1 2)))'), /table/],
    [
      "a 64-bit global",
      assemble(
        '(module (import "e" "m" (memory 1 2)) (table 1 1 funcref) (global i64 (i64.const 1)) (export "g" (global 0)))',
      ),
      /i32/,
    ],
  ])("rejects %s", (_name, bytes, reason) => {
    expect(() => parseWasmModule(bytes)).toThrow(reason);
  });
});

describe("an instrumented module", () => {
  let engine: SmallWasmInstance;
  beforeAll(async () => {
    engine = await instantiateSmallModule(
      encodeWasmModule(instrumentFunctions(parseWasmModule(wasm))),
      ENTRY_FLAGS_OFFSET / 65_536 + 1,
    );
  });
  const readFlags = () => new Uint8Array(engine.memory.buffer, ENTRY_FLAGS_OFFSET, 65_536);
  const enteredFunctions = () =>
    [...readFlags().entries()].flatMap(([number, flag]) =>
      flag === 0 ? [] : [functionNameOf(number)],
    );

  it("records exactly the functions that were entered, by their indices", () => {
    expect(enteredFunctions()).toEqual(["begin"]);
    readFlags().fill(0);
    expect(engine.call("direct", -5)).toBe(5);
    expect(enteredFunctions()).toEqual(["direct"]);
    expect(engine.call("choose", 2, 6, 7)).toBe(42);
    expect(engine.call("sum", 4)).toBe(10);
    expect(enteredFunctions()).toEqual(["multiply", "choose", "direct", "sum"]);
    expect(engine.call("direct", 5)).toBe(100);
    expect(enteredFunctions()).toEqual(["multiply", "choose", "triple", "direct", "switch", "sum"]);
    expect(engine.call("lanes", 5)).toBe(30);
    expect(enteredFunctions()).toContain("lanes");
  });

  it("exports its mutable globals", () => {
    engine.call("stackSet", 8192);
    expect(readGlobal(engine, globalExportName(0))).toBe(8192);
    expect(readGlobal(engine, globalExportName(1))).toBe(-70_000);
    expect(engine.exports[globalExportName(2)]).toBeUndefined();
  });
});

const kept = ["multiply", "choose", "direct", "sometimes", "switch", "sum", "lanes", "globals"];
const plan = {
  keepFunctions: functionIndexesOf(...kept),
  emptiedExports: [INITIALIZER],
  globalValues: [8192, -5],
};
let module: WasmModule;
let stripped: Uint8Array<ArrayBuffer>;
let fullInstance: SmallWasmInstance;
beforeAll(async () => {
  module = parseWasmModule(wasm);
  stripped = stripFunctions(module, plan);
  fullInstance = await instantiateSmallModule(wasm, 2);
});

describe("a stripped module", () => {
  it("gives the results of the full module", async () => {
    const engine = await instantiateSmallModule(stripped, 1);
    const number = fc.integer({ min: -1000, max: 1000 });
    const calls: [name: string, ...parameters: fc.Arbitrary<number>[]][] = [
      ["choose", fc.constant(2), number, number],
      ["direct", fc.integer({ min: -1000, max: 0 })],
      ["sometimes", fc.constant(0)],
      ["switch", fc.integer({ min: -1, max: 5 })],
      ["sum", fc.integer({ min: 1, max: 100 })],
      ["lanes", number],
    ];
    const call = fc.oneof(
      ...calls.map(([name, ...parameters]) => fc.tuple(fc.constant(name), fc.tuple(...parameters))),
    );
    fc.assert(
      fc.property(call, ([name, parameters]) => {
        expect(engine.call(name, ...parameters)).toBe(fullInstance.call(name, ...parameters));
      }),
      { numRuns: propertyRuns(500) },
    );
  });

  it("begins with the planned globals, and keeps the others", async () => {
    expect(fullInstance.call("globals")).toBe(4096 - 70_000 + 7);
    expect((await instantiateSmallModule(stripped, 1)).call("globals")).toBe(8192 - 5 + 7);
  });
});

describe("a trap of a stripped module", () => {
  it("reports the index of a stripped function that is called directly", async () => {
    for (const name of ["direct", "sometimes"]) {
      const fresh = await instantiateSmallModule(stripped, 1);
      expect(readGlobal(fresh, STRIPPED_FUNCTION_EXPORT)).toBe(-1);
      expect(() => fresh.call(name, 5)).toThrow(WebAssembly.RuntimeError);
      expect(functionIndexesOf("triple")).toEqual(
        new Set([readGlobal(fresh, STRIPPED_FUNCTION_EXPORT)]),
      );
      expect(fresh.loggedValues).toEqual([]);
    }
  });

  it("reports the slot of a stripped function that is called through the table", async () => {
    const fresh = await instantiateSmallModule(stripped, 1);
    const table = fresh.exports["table"] as WebAssembly.Table;
    const usedSlots = Array.from({ length: 8 }, (_, slot) => slot).filter(
      (slot) => table.get(slot) !== null,
    );
    expect(usedSlots).toEqual([2]);
    expect(readGlobal(fresh, LATEST_SLOT_EXPORT)).toBe(-1);
    expect(() => fresh.call("choose", 5, 6, 7)).toThrow(WebAssembly.RuntimeError);
    expect(readGlobal(fresh, LATEST_SLOT_EXPORT)).toBe(5);
    expect(readGlobal(fresh, STRIPPED_FUNCTION_EXPORT)).toBe(-1);
    expect(fresh.call("choose", 2, 6, 7)).toBe(42);
    expect(readGlobal(fresh, LATEST_SLOT_EXPORT)).toBe(2);
  });

  it("reports the index of a stripped export", async () => {
    const engine = await instantiateSmallModule(stripped, 1);
    expect(() => engine.call("stackSet", 1)).toThrow(WebAssembly.RuntimeError);
    expect(functionIndexesOf("stackSet")).toEqual(
      new Set([readGlobal(engine, STRIPPED_FUNCTION_EXPORT)]),
    );
  });
});

describe("stripFunctions", () => {
  it("omits data and the start function, and empties exports", async () => {
    const readMemory = ({ memory }: SmallWasmInstance) =>
      [16, 32, 64].map((offset) => Buffer.from(memory.buffer, offset, 5).toString("latin1"));
    const fresh = await instantiateSmallModule(stripped, 1);
    for (const instance of [fullInstance, fresh]) instance.call(INITIALIZER);
    expect(readMemory(fullInstance)).toEqual(["hello", "there", "{\0\0\0\0"]);
    expect(readMemory(fresh).join("")).toBe("\0".repeat(15));
    const parsed = parseWasmModule(stripped);
    expect(parsed.startFunction).toBeUndefined();
    expect(
      [SECTION_ID.start, SECTION_ID.data, SECTION_ID.dataCount].filter((id) =>
        parsed.rawSections.has(id),
      ),
    ).toEqual([]);
  });

  it("gives the same bytes each time, without unreachable functions", () => {
    expect(
      sha256(
        stripFunctions(parseWasmModule(wasm), {
          ...plan,
          keepFunctions: new Set([...plan.keepFunctions].toReversed()),
        }),
      ),
    ).toBe(sha256(stripped));
    const bodies = parseWasmModule(stripped).functionBodies.length;
    expect(bodies).toBe(kept.length + 2); // Two exports are not kept: the initializer and stackSet.
    expect(
      parseWasmModule(
        stripFunctions(module, {
          ...plan,
          keepFunctions: functionIndexesOf(...kept, "add", "triple"),
        }),
      ).functionBodies.length,
    ).toBe(bodies + 2);
  });

  it("rejects a plan that gives an invalid module", () => {
    // An export with a result cannot be emptied.
    expect(() => stripFunctions(module, { ...plan, emptiedExports: ["sum"] })).toThrow(
      /valid|parsing/,
    );
  });
});
