// A WebAssembly binary as the parts that the engine build changes; everything else stays the bytes it was
// (core specification 3.0, section 5.5). Function indices count imported functions first.

import { ByteReader, ByteWriter } from "./byte-stream.ts";
import { OP } from "./instructions.ts";

export const SECTION = {
  custom: 0,
  type: 1,
  import: 2,
  function: 3,
  table: 4,
  memory: 5,
  global: 6,
  export: 7,
  start: 8,
  element: 9,
  code: 10,
  data: 11,
  dataCount: 12,
} as const;
export const KIND = { function: 0, table: 1, memory: 2, global: 3 } as const;
const LIMITS = { withMaximum: 1, sharedWithMaximum: 3 } as const;

/** In pages of 64 KiB. */
export interface MemoryLimits {
  initialPages: number;
  maximumPages: number;
  shared: boolean;
}

export interface WasmExport {
  readonly name: string;
  readonly kind: number;
  readonly index: number;
}

export interface WasmModule {
  readonly importedFunctions: number;
  /** Of the one imported memory; changing it changes the module. */
  readonly memory: MemoryLimits;
  /** Of the defined functions, with their local declarations and `end`. */
  readonly bodies: Uint8Array[];
  /** Function of every slot of the table; undefined is null. */
  readonly slots: (number | undefined)[];
  readonly exports: WasmExport[];
  /** All defined here, all i32, with the value they start with. */
  readonly globals: { readonly mutable: boolean; value: number }[];
  start: number | undefined;
  /** False leaves the data segments out. */
  keepData: boolean;
  /** Sections by their number, as they were. */
  readonly raw: ReadonlyMap<number, Uint8Array>;
}

/** @throws Error if the binary has a form that onnxruntime-web's engine does not have */
export function parseModule(bytes: Uint8Array): WasmModule {
  const raw = new Map<number, Uint8Array>();
  const reader = new ByteReader(bytes, 8);
  while (!reader.atEnd) {
    const id = reader.byte();
    const content = reader.take(reader.unsigned());
    if (id !== SECTION.custom) raw.set(id, content);
  }
  const section = (id: number) => new ByteReader(raw.get(id) ?? Uint8Array.of(0));
  const { importedFunctions, memory } = readImports(section(SECTION.import));
  return {
    importedFunctions,
    memory,
    bodies: readVector(section(SECTION.code), (code) => code.take(code.unsigned())),
    slots: readSlots(section(SECTION.element), readTableSize(section(SECTION.table))),
    exports: readVector(section(SECTION.export), (exports) => ({
      name: exports.name(),
      kind: exports.byte(),
      index: exports.unsigned(),
    })),
    globals: readVector(section(SECTION.global), readGlobal),
    start: raw.has(SECTION.start) ? section(SECTION.start).unsigned() : undefined,
    keepData: true,
    raw,
  };
}

export function encodeModule(module: WasmModule): Uint8Array<ArrayBuffer> {
  const writer = new ByteWriter().bytes(Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0));
  const section = (id: number, content: Uint8Array | undefined) => {
    if (content !== undefined) writer.byte(id).unsigned(content.byteLength).bytes(content);
  };
  section(SECTION.type, module.raw.get(SECTION.type));
  section(
    SECTION.import,
    withMemoryLimits(module.raw.get(SECTION.import) as Uint8Array, module.memory),
  );
  section(SECTION.function, module.raw.get(SECTION.function));
  section(SECTION.table, module.raw.get(SECTION.table));
  section(
    SECTION.global,
    vector(module.globals, (out, { mutable, value }) =>
      out
        .bytes(Uint8Array.of(0x7f, mutable ? 1 : 0, OP.i32Const))
        .signed(value)
        .byte(OP.end),
    ),
  );
  section(
    SECTION.export,
    vector(module.exports, (out, { name, kind, index }) =>
      out.name(name).byte(kind).unsigned(index),
    ),
  );
  if (module.start !== undefined)
    section(SECTION.start, new ByteWriter().unsigned(module.start).finish());
  section(SECTION.element, encodeSlots(module.slots));
  if (module.keepData) section(SECTION.dataCount, module.raw.get(SECTION.dataCount));
  section(
    SECTION.code,
    vector(module.bodies, (out, body) => out.unsigned(body.byteLength).bytes(body)),
  );
  if (module.keepData) section(SECTION.data, module.raw.get(SECTION.data));
  return writer.finish();
}

/** Where a body's instructions begin. */
export function skipLocals(body: Uint8Array): ByteReader {
  const reader = new ByteReader(body);
  for (let groups = reader.unsigned(); groups > 0; groups--) {
    reader.skipInteger();
    reader.byte();
  }
  return reader;
}

function readVector<Item>(reader: ByteReader, read: (reader: ByteReader) => Item): Item[] {
  return Array.from({ length: reader.unsigned() }, () => read(reader));
}

function vector<Item>(
  items: readonly Item[],
  write: (out: ByteWriter, item: Item) => unknown,
): Uint8Array {
  const out = new ByteWriter().unsigned(items.length);
  for (const item of items) write(out, item);
  return out.finish();
}

function readImports(reader: ByteReader): { importedFunctions: number; memory: MemoryLimits } {
  let importedFunctions = 0;
  let memory: MemoryLimits | undefined;
  for (let left = reader.unsigned(); left > 0; left--) {
    reader.name();
    reader.name();
    const kind = reader.byte();
    if (kind === KIND.function) {
      reader.unsigned();
      importedFunctions++;
    } else if (kind === KIND.memory) memory = readLimits(reader);
    else throw new Error(`imports of kind ${kind} are not known`);
  }
  if (memory === undefined) throw new Error("the module imports no memory");
  return { importedFunctions, memory };
}

function readLimits(reader: ByteReader): MemoryLimits {
  const flags = reader.byte();
  if (flags !== LIMITS.withMaximum && flags !== LIMITS.sharedWithMaximum)
    throw new Error(`memory limits of form ${flags} are not known`);
  return {
    initialPages: reader.unsigned(),
    maximumPages: reader.unsigned(),
    shared: flags === LIMITS.sharedWithMaximum,
  };
}

function withMemoryLimits(
  imports: Uint8Array,
  { initialPages, maximumPages, shared }: MemoryLimits,
): Uint8Array {
  const reader = new ByteReader(imports);
  for (let left = reader.unsigned(); left > 0; left--) {
    reader.name();
    reader.name();
    if (reader.byte() !== KIND.memory) reader.unsigned();
    else {
      const out = new ByteWriter().bytes(imports.subarray(0, reader.offset));
      readLimits(reader);
      out
        .byte(shared ? LIMITS.sharedWithMaximum : LIMITS.withMaximum)
        .unsigned(initialPages)
        .unsigned(maximumPages);
      return out.bytes(imports.subarray(reader.offset)).finish();
    }
  }
  return imports;
}

function readTableSize(reader: ByteReader): number {
  if (reader.unsigned() !== 1) throw new Error("the module does not have exactly one table");
  reader.take(2); // funcref, limits with a maximum
  return reader.unsigned();
}

function readSlots(reader: ByteReader, size: number): (number | undefined)[] {
  const slots = Array.from<number | undefined>({ length: size });
  for (let left = reader.unsigned(); left > 0; left--) {
    if (reader.unsigned() !== 0) throw new Error("element segments must be active, of functions");
    const offset = readConstant(reader);
    readVector(reader, (functions) => functions.unsigned()).forEach(
      (index, position) => (slots[offset + position] = index),
    );
  }
  return slots;
}

/** One active segment for every run of slots that are not null. */
function encodeSlots(slots: readonly (number | undefined)[]): Uint8Array {
  const runs: { offset: number; functions: number[] }[] = [];
  slots.forEach((index, slot) => {
    const last = runs.at(-1);
    if (index === undefined) return;
    if (last !== undefined && last.offset + last.functions.length === slot)
      last.functions.push(index);
    else runs.push({ offset: slot, functions: [index] });
  });
  return vector(runs, (out, { offset, functions }) => {
    out.unsigned(0).byte(OP.i32Const).signed(offset).byte(OP.end).unsigned(functions.length);
    for (const index of functions) out.unsigned(index);
  });
}

function readGlobal(reader: ByteReader): { mutable: boolean; value: number } {
  if (reader.byte() !== 0x7f) throw new Error("globals must be i32");
  return { mutable: reader.byte() === 1, value: readConstant(reader) };
}

/** i32.const and end */
function readConstant(reader: ByteReader): number {
  if (reader.byte() !== OP.i32Const) throw new Error("constants must be i32.const");
  let value = 0;
  let shift = 0;
  let byte: number;
  do {
    byte = reader.byte();
    value |= (byte & 0x7f) << shift;
    shift += 7;
  } while (byte >= 0x80);
  if (reader.byte() !== OP.end) throw new Error("constants must be one instruction");
  return shift < 32 && (byte & 0x40) !== 0 ? value | (-1 << shift) : value;
}
