// Just enough of the WebAssembly binary format (core specification, section 5.5) to change a module's memory import.

const IMPORT_SECTION = 2;
const MEMORY_IMPORT = 2;
const LIMITS_SHARED_WITH_MAX = 3;
const LIMITS_WITH_MAX = 1;

/** Limits of an imported memory, in pages of 64 KiB. */
export interface MemoryLimits {
  readonly initialPages: number;
  readonly maximumPages: number;
}

/**
 * Turns the one imported shared memory into a non-shared one, in place: only its flags byte changes.
 * @throws Error if the module has no such import.
 */
export function unshareMemoryImport(wasm: Uint8Array): MemoryLimits {
  const reader = new Reader(wasm, 8);
  while (reader.offset < wasm.byteLength) {
    const section = reader.byte();
    const size = reader.unsigned();
    if (section !== IMPORT_SECTION) {
      reader.offset += size;
      continue;
    }
    for (let left = reader.unsigned(); left > 0; left--) {
      reader.skipName();
      reader.skipName();
      const kind = reader.byte();
      if (kind !== MEMORY_IMPORT) {
        reader.skipImportType(kind);
        continue;
      }
      const flagsAt = reader.offset;
      if (reader.byte() !== LIMITS_SHARED_WITH_MAX) throw new Error("the imported memory is not a shared one with a maximum");
      wasm[flagsAt] = LIMITS_WITH_MAX;
      return { initialPages: reader.unsigned(), maximumPages: reader.unsigned() };
    }
  }
  throw new Error("the module imports no memory");
}

class Reader {
  readonly #bytes: Uint8Array;
  offset: number;

  constructor(bytes: Uint8Array, offset: number) {
    this.#bytes = bytes;
    this.offset = offset;
  }

  byte(): number {
    const value = this.#bytes[this.offset++];
    if (value === undefined) throw new Error("the module ends too early");
    return value;
  }

  /** LEB128. */
  unsigned(): number {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = this.byte();
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
  }

  skipName(): void {
    const length = this.unsigned();
    this.offset += length;
  }

  /** Function, table, global or tag; a memory is read by the caller. */
  skipImportType(kind: number): void {
    if (kind === 0) this.unsigned();
    else if (kind === 1) {
      this.byte();
      if ((this.byte() & 1) === 1) this.unsigned();
      this.unsigned();
    } else if (kind === 3) this.offset += 2;
    else throw new Error(`unknown import kind ${kind}`);
  }
}
