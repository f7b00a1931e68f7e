// WebAssembly binaries taken apart and put together, instrumented, and cut: the real engine comes back byte for byte, a
// small one does what it should.
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { stripFunctions } from "../../../src/toolchain/engine/strip-functions.ts";
import {
  ENTRY_FLAGS_OFFSET,
  globalExportName,
  instrumentFunctions,
} from "../../../src/toolchain/engine/instrument-functions.ts";
import { prepareEngine } from "../../../src/toolchain/engine/prepare-engine.ts";
import {
  encodeWasmModule,
  parseWasmModule,
  SECTION_ID,
  type WasmModule,
} from "../../../src/toolchain/engine/wasm-module.ts";
import { ENGINE_FOLDER } from "../../../src/cli/local/paths.ts";
import { STRIPPED_FUNCTION_EXPORT, LATEST_SLOT_EXPORT } from "../../../src/runtime/wasm/traps.ts";
import {
  assemble,
  functionNameOf,
  functionIndexesOf,
  instantiateSmallModule,
  type SmallWasmInstance,
} from "../../support/small-wasm-module.ts";

const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");
const wasm = assemble();
const valueOf = (engine: SmallWasmInstance, name: string): unknown =>
  (engine.exports[name] as WebAssembly.Global).value;

describe("a module that is parsed and encoded", () => {
  it("is the same, byte by byte: onnxruntime-web's engine, and the one made of it", async () => {
    const { sha256: prepared } = await prepareEngine({ outDir: ENGINE_FOLDER });
    expect(
      sha256(encodeWasmModule(parseWasmModule(await readFile(join(ENGINE_FOLDER, "engine.wasm"))))),
    ).toBe(prepared);
    const original = await readFile(
      createRequire(import.meta.url).resolve("onnxruntime-web/ort-wasm-simd-threaded.wasm"),
    );
    expect(sha256(encodeWasmModule(parseWasmModule(original)))).toBe(sha256(original));
  }, 60_000);

  it("is the same for slots with gaps, negative numbers, passive data and a start function", () => {
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

  it("has the memory limits that it is given", async () => {
    const module = parseWasmModule(wasm);
    const smaller = encodeWasmModule({ ...module, memory: { ...module.memory, initialPages: 1 } });
    await expect(instantiateSmallModule(wasm, 1)).rejects.toThrow(WebAssembly.LinkError);
    expect((await instantiateSmallModule(smaller, 1)).call("sum", 4)).toBe(10);
  });

  it.each([
    ["cut off", wasm.subarray(0, wasm.byteLength - 1), "ends too early"],
    ["without a memory", assemble("(module (table 1 1 funcref))"), "imports no memory"],
    [
      "with a memory that has no maximum",
      assemble('(module (import "e" "m" (memory 1)))'),
      "memory limits of form 0",
    ],
    [
      "with an imported global",
      assemble('(module (import "e" "m" (memory 1 2)) (import "e" "g" (global i32)))'),
      "imports of kind 3",
    ],
    ["without a table", assemble('(module (import "e" "m" (memory 1 2)))'), "exactly one table"],
    [
      "with a wide global",
      assemble(
        '(module (import "e" "m" (memory 1 2)) (table 1 1 funcref) (global i64 (i64.const 1)) (export "g" (global 0)))',
      ),
      "globals must be i32",
    ],
  ])("is refused %s", (_what, bytes, reason) => {
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
  const flags = () => new Uint8Array(engine.memory.buffer, ENTRY_FLAGS_OFFSET, 65_536);
  const entered = () =>
    [...flags().entries()].flatMap(([number, flag]) =>
      flag === 0 ? [] : [functionNameOf(number)],
    );

  it("notes exactly the functions that were entered, by their numbers", () => {
    expect(entered()).toEqual(["begin"]);
    flags().fill(0);
    expect(engine.call("direct", -5)).toBe(5);
    expect(entered()).toEqual(["direct"]);
    expect([engine.call("choose", 2, 6, 7), engine.call("sum", 4)]).toEqual([42, 10]);
    expect(entered()).toEqual(["multiply", "choose", "direct", "sum"]);
    expect(engine.call("direct", 5)).toBe(100);
    expect(entered()).toEqual(["multiply", "choose", "triple", "direct", "switch", "sum"]);
    expect(engine.call("lanes", 5)).toBe(30);
    expect(entered()).toContain("lanes");
  });

  it("exports its mutable globals", () => {
    engine.call("stackSet", 8192);
    expect([0, 1].map((index) => valueOf(engine, globalExportName(index)))).toEqual([
      8192, -70_000,
    ]);
    expect(engine.exports[globalExportName(2)]).toBeUndefined();
  });
});

describe("a cut module", () => {
  const kept = ["multiply", "choose", "direct", "sometimes", "switch", "sum", "lanes", "globals"];
  const plan = {
    keepFunctions: functionIndexesOf(...kept),
    emptiedExports: ["initialise"],
    globalValues: [8192, -5],
  };
  let module: WasmModule;
  let shortened: Uint8Array<ArrayBuffer>;
  let full: SmallWasmInstance;
  let engine: SmallWasmInstance;
  beforeAll(async () => {
    module = parseWasmModule(wasm);
    shortened = stripFunctions(module, plan);
    full = await instantiateSmallModule(wasm, 2);
    engine = await instantiateSmallModule(shortened, 1);
  });

  it("gives the results of the full one", () => {
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
        expect(engine.call(name, ...parameters)).toBe(full.call(name, ...parameters));
      }),
      { numRuns: 500 },
    );
  });

  it("traps where it would call a function that was cut, and tells its number in the full one", async () => {
    for (const name of ["direct", "sometimes"]) {
      const fresh = await instantiateSmallModule(shortened, 1);
      expect(valueOf(fresh, STRIPPED_FUNCTION_EXPORT)).toBe(-1);
      expect(() => fresh.call(name, 5)).toThrow(WebAssembly.RuntimeError);
      expect(functionIndexesOf("triple")).toEqual(
        new Set([valueOf(fresh, STRIPPED_FUNCTION_EXPORT)]),
      );
      expect(fresh.loggedValues).toEqual([]);
    }
  });

  it("traps where it would call one through the table, whose slot is null and is told", async () => {
    const fresh = await instantiateSmallModule(shortened, 1);
    const table = fresh.exports["table"] as WebAssembly.Table;
    expect(Array.from({ length: 8 }, (_, slot) => table.get(slot) === null)).toEqual([
      true,
      true,
      false,
      true,
      true,
      true,
      true,
      true,
    ]);
    expect(valueOf(fresh, LATEST_SLOT_EXPORT)).toBe(-1);
    expect(() => fresh.call("choose", 5, 6, 7)).toThrow(WebAssembly.RuntimeError);
    expect([valueOf(fresh, LATEST_SLOT_EXPORT), valueOf(fresh, STRIPPED_FUNCTION_EXPORT)]).toEqual([
      5, -1,
    ]);
    expect(fresh.call("choose", 2, 6, 7)).toBe(42);
    expect(valueOf(fresh, LATEST_SLOT_EXPORT)).toBe(2);
  });

  it("traps in an export that was cut", () => {
    expect(() => engine.call("stackSet", 1)).toThrow(WebAssembly.RuntimeError);
    expect(functionIndexesOf("stackSet")).toEqual(
      new Set([valueOf(engine, STRIPPED_FUNCTION_EXPORT)]),
    );
  });

  it("begins with the globals of the plan, the others as they were", () => {
    expect(full.call("globals")).toBe(4096 - 70_000 + 7);
    expect(engine.call("globals")).toBe(8192 - 5 + 7);
  });

  it("has neither data nor a start function, and its emptied exports do nothing", async () => {
    const memoryOf = ({ memory }: SmallWasmInstance) =>
      [16, 32, 64].map((at) => Buffer.from(memory.buffer, at, 5).toString("latin1"));
    const fresh = await instantiateSmallModule(shortened, 1);
    for (const one of [full, fresh]) one.call("initialise");
    expect(memoryOf(full)).toEqual(["hello", "there", "{\0\0\0\0"]);
    expect(memoryOf(fresh).join("")).toBe("\0".repeat(15));
    const parsed = parseWasmModule(shortened);
    expect(parsed.startFunction).toBeUndefined();
    expect(
      [SECTION_ID.start, SECTION_ID.data, SECTION_ID.dataCount].filter((id) =>
        parsed.rawSections.has(id),
      ),
    ).toEqual([]);
  });

  it("is the same bytes each time, with nothing in it that nobody can call", () => {
    expect(
      sha256(
        stripFunctions(parseWasmModule(wasm), {
          ...plan,
          keepFunctions: new Set([...plan.keepFunctions].toReversed()),
        }),
      ),
    ).toBe(sha256(shortened));
    const bodies = parseWasmModule(shortened).functionBodies.length;
    expect(bodies).toBe(kept.length + 2); // initialise and stackSet are exports
    expect(
      parseWasmModule(
        stripFunctions(module, {
          ...plan,
          keepFunctions: functionIndexesOf(...kept, "add", "triple"),
        }),
      ).functionBodies.length,
    ).toBe(bodies + 2);
  });

  it("is refused where it would not be valid", () => {
    expect(() => stripFunctions(module, { ...plan, emptiedExports: ["sum"] })).toThrow(
      /valid|parsing/,
    ); // it has a result
  });
});
