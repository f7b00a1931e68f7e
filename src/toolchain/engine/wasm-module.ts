// WebAssembly module: parses a binary into the parts that the engine build changes, and encodes it again. All other bytes
// stay the same (core specification 3.0, section 5.5). Function indices count imported functions first.

import { ByteReader, ByteWriter } from "./byte-stream.ts";
import { OPCODE } from "./instructions.ts";

export const SECTION_ID = {
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
export const EXTERNAL_KIND = { function: 0, table: 1, memory: 2, global: 3 } as const;
const LIMITS_FLAGS = { withMaximum: 1, sharedWithMaximum: 3 } as const;

/** Limits in pages of 64 KiB. */
export interface MemoryLimits {
  initialPages: number;
  maximumPages: number;
  isShared: boolean;
}

export interface WasmExport {
  readonly name: string;
  readonly kind: number;
  readonly index: number;
}

export interface WasmModule {
  readonly importedFunctionCount: number;
  /** Limits of the one imported memory; changing them changes the module. */
  readonly memory: MemoryLimits;
  /** Bodies of the defined functions, with their local declarations and `end`. */
  readonly functionBodies: Uint8Array[];
  /** Function index of each table slot; undefined is null. */
  readonly tableSlots: (number | undefined)[];
  readonly exports: WasmExport[];
  /** Globals with their initial values. All are defined in the module, and all are i32. */
  readonly globals: { readonly mutable: boolean; value: number }[];
  startFunction: number | undefined;
  /** False omits the data segments. */
  includeData: boolean;
  /** Unchanged sections by their number. */
  readonly rawSections: ReadonlyMap<number, Uint8Array>;
}

/** Supports only the forms that occur in onnxruntime-web's engine. @throws Error for any other form */
export function parseWasmModule(bytes: Uint8Array): WasmModule {
  const rawSections = new Map<number, Uint8Array>();
  const reader = new ByteReader(bytes, 8);
  while (!reader.isAtEnd) {
    const id = reader.readByte();
    const content = reader.readBytes(reader.readUleb128());
    if (id !== SECTION_ID.custom) rawSections.set(id, content);
  }
  const section = (id: number) => new ByteReader(rawSections.get(id) ?? Uint8Array.of(0));
  const { importedFunctionCount, memory } = readImports(section(SECTION_ID.import));
  return {
    importedFunctionCount,
    memory,
    functionBodies: readVector(section(SECTION_ID.code), (code) =>
      code.readBytes(code.readUleb128()),
    ),
    tableSlots: readSlots(section(SECTION_ID.element), readTableSize(section(SECTION_ID.table))),
    exports: readVector(section(SECTION_ID.export), (exports) => ({
      name: exports.readName(),
      kind: exports.readByte(),
      index: exports.readUleb128(),
    })),
    globals: readVector(section(SECTION_ID.global), readGlobal),
    startFunction: rawSections.has(SECTION_ID.start)
      ? section(SECTION_ID.start).readUleb128()
      : undefined,
    includeData: true,
    rawSections,
  };
}

export function encodeWasmModule(module: WasmModule): Uint8Array<ArrayBuffer> {
  const writer = new ByteWriter().writeBytes(Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0));
  const writeSection = (id: number, content: Uint8Array | undefined) => {
    if (content !== undefined)
      writer.writeByte(id).writeUleb128(content.byteLength).writeBytes(content);
  };
  writeSection(SECTION_ID.type, module.rawSections.get(SECTION_ID.type));
  writeSection(
    SECTION_ID.import,
    replaceMemoryLimits(module.rawSections.get(SECTION_ID.import) as Uint8Array, module.memory),
  );
  writeSection(SECTION_ID.function, module.rawSections.get(SECTION_ID.function));
  writeSection(SECTION_ID.table, module.rawSections.get(SECTION_ID.table));
  writeSection(
    SECTION_ID.global,
    encodeVector(module.globals, (out, { mutable, value }) =>
      out
        .writeBytes(Uint8Array.of(0x7f, mutable ? 1 : 0, OPCODE.i32Const))
        .writeSleb128(value)
        .writeByte(OPCODE.end),
    ),
  );
  writeSection(
    SECTION_ID.export,
    encodeVector(module.exports, (out, { name, kind, index }) =>
      out.writeName(name).writeByte(kind).writeUleb128(index),
    ),
  );
  if (module.startFunction !== undefined)
    writeSection(SECTION_ID.start, new ByteWriter().writeUleb128(module.startFunction).finish());
  writeSection(SECTION_ID.element, encodeSlots(module.tableSlots));
  if (module.includeData)
    writeSection(SECTION_ID.dataCount, module.rawSections.get(SECTION_ID.dataCount));
  writeSection(
    SECTION_ID.code,
    encodeVector(module.functionBodies, (out, body) =>
      out.writeUleb128(body.byteLength).writeBytes(body),
    ),
  );
  if (module.includeData) writeSection(SECTION_ID.data, module.rawSections.get(SECTION_ID.data));
  return writer.finish();
}

/** @returns a reader at the first instruction of a function body */
export function skipLocals(body: Uint8Array): ByteReader {
  const reader = new ByteReader(body);
  for (let groups = reader.readUleb128(); groups > 0; groups--) {
    reader.skipLeb128();
    reader.readByte();
  }
  return reader;
}

function readVector<Item>(reader: ByteReader, read: (reader: ByteReader) => Item): Item[] {
  return Array.from({ length: reader.readUleb128() }, () => read(reader));
}

function encodeVector<Item>(
  items: readonly Item[],
  write: (out: ByteWriter, item: Item) => unknown,
): Uint8Array {
  const out = new ByteWriter().writeUleb128(items.length);
  for (const item of items) write(out, item);
  return out.finish();
}

function readImports(reader: ByteReader): {
  importedFunctionCount: number;
  memory: MemoryLimits;
} {
  let importedFunctionCount = 0;
  let memory: MemoryLimits | undefined;
  for (let left = reader.readUleb128(); left > 0; left--) {
    reader.readName();
    reader.readName();
    const kind = reader.readByte();
    if (kind === EXTERNAL_KIND.function) {
      reader.readUleb128();
      importedFunctionCount++;
    } else if (kind === EXTERNAL_KIND.memory) memory = readLimits(reader);
    else throw new Error(`unsupported import of kind ${kind}`);
  }
  if (memory === undefined) throw new Error("the module imports no memory");
  return { importedFunctionCount, memory };
}

function readLimits(reader: ByteReader): MemoryLimits {
  const flags = reader.readByte();
  if (flags !== LIMITS_FLAGS.withMaximum && flags !== LIMITS_FLAGS.sharedWithMaximum)
    throw new Error(`unsupported memory limits with flags ${flags}`);
  return {
    initialPages: reader.readUleb128(),
    maximumPages: reader.readUleb128(),
    isShared: flags === LIMITS_FLAGS.sharedWithMaximum,
  };
}

function replaceMemoryLimits(
  imports: Uint8Array,
  { initialPages, maximumPages, isShared }: MemoryLimits,
): Uint8Array {
  const reader = new ByteReader(imports);
  for (let left = reader.readUleb128(); left > 0; left--) {
    reader.readName();
    reader.readName();
    if (reader.readByte() !== EXTERNAL_KIND.memory) reader.readUleb128();
    else {
      const out = new ByteWriter().writeBytes(imports.subarray(0, reader.offset));
      readLimits(reader);
      out
        .writeByte(isShared ? LIMITS_FLAGS.sharedWithMaximum : LIMITS_FLAGS.withMaximum)
        .writeUleb128(initialPages)
        .writeUleb128(maximumPages);
      return out.writeBytes(imports.subarray(reader.offset)).finish();
    }
  }
  return imports;
}

function readTableSize(reader: ByteReader): number {
  if (reader.readUleb128() !== 1) throw new Error("the module must have exactly one table");
  reader.readBytes(2); // These bytes are funcref, and limits with a maximum.
  return reader.readUleb128();
}

function readSlots(reader: ByteReader, size: number): (number | undefined)[] {
  const slots = Array.from<number | undefined>({ length: size });
  for (let left = reader.readUleb128(); left > 0; left--) {
    if (reader.readUleb128() !== 0)
      throw new Error("element segments must be active and contain functions");
    const offset = readConstant(reader);
    readVector(reader, (functions) => functions.readUleb128()).forEach(
      (index, position) => (slots[offset + position] = index),
    );
  }
  return slots;
}

/** Encodes one active segment for each run of non-null slots. */
function encodeSlots(slots: readonly (number | undefined)[]): Uint8Array {
  const runs: { offset: number; functions: number[] }[] = [];
  slots.forEach((index, slot) => {
    const last = runs.at(-1);
    if (index === undefined) return;
    if (last !== undefined && last.offset + last.functions.length === slot)
      last.functions.push(index);
    else runs.push({ offset: slot, functions: [index] });
  });
  return encodeVector(runs, (out, { offset, functions }) => {
    out
      .writeUleb128(0)
      .writeByte(OPCODE.i32Const)
      .writeSleb128(offset)
      .writeByte(OPCODE.end)
      .writeUleb128(functions.length);
    for (const index of functions) out.writeUleb128(index);
  });
}

function readGlobal(reader: ByteReader): { mutable: boolean; value: number } {
  if (reader.readByte() !== 0x7f) throw new Error("globals must be i32");
  return { mutable: reader.readByte() === 1, value: readConstant(reader) };
}

/** Reads the constant expression `i32.const value end`. */
function readConstant(reader: ByteReader): number {
  if (reader.readByte() !== OPCODE.i32Const) throw new Error("constants must be i32.const");
  let value = 0;
  let shift = 0;
  let byte: number;
  do {
    byte = reader.readByte();
    value |= (byte & 0x7f) << shift;
    shift += 7;
  } while (byte >= 0x80);
  if (reader.readByte() !== OPCODE.end) throw new Error("constants must be a single instruction");
  return shift < 32 && (byte & 0x40) !== 0 ? value | (-1 << shift) : value;
}
