// Walks the instructions of a function body (WebAssembly core specification 3.0, section 5.4): just enough to find calls,
// blocks and segments, and to know where every instruction ends.

import type { ByteReader } from "./byte-stream.ts";

export const OP = {
  unreachable: 0x00,
  block: 0x02,
  loop: 0x03,
  if: 0x04,
  else: 0x05,
  end: 0x0b,
  call: 0x10,
  callIndirect: 0x11,
  globalGet: 0x23,
  globalSet: 0x24,
  i32Store8: 0x3a,
  i32Const: 0x41,
  refFunc: 0xd2,
} as const;

const PREFIX = { misc: 0xfc, simd: 0xfd, atomic: 0xfe } as const;

/** memory.init and data.drop: what needs the data segments. */
export const usesData = ({ op, operand }: Instruction): boolean =>
  op === PREFIX.misc && (operand === 8 || operand === 9);

export interface Instruction {
  readonly op: number;
  /** Of its first byte, and of the first byte after it. */
  readonly start: number;
  readonly end: number;
  /** The function of `call` and `ref.func`, the type of `call_indirect`, the number after the prefix 0xfc; 0 for all others. */
  readonly operand: number;
}

/** @throws Error for an instruction that is not known here: skipping it wrongly would corrupt what follows. */
export function readInstruction(reader: ByteReader): Instruction {
  const start = reader.offset;
  const op = reader.byte();
  const operand = readImmediates(reader, op);
  return { op, start, end: reader.offset, operand };
}

function readImmediates(reader: ByteReader, op: number): number {
  if (op === OP.call || op === OP.refFunc) return reader.unsigned();
  if (op === OP.callIndirect) {
    const type = reader.unsigned();
    reader.skipInteger(); // table
    return type;
  }
  if (op >= 0x45 && op <= 0xc4) return 0; // comparisons, arithmetic, conversions
  if (op >= 0x28 && op <= 0x3e) skipMemoryArgument(reader);
  else if ((op >= 0x20 && op <= 0x26) || op === 0x0c || op === 0x0d) reader.skipInteger(); // locals, globals, tables; br, br_if
  else if (op === OP.block || op === OP.loop || op === OP.if) reader.skipInteger(); // block type
  else if (op === OP.i32Const || op === 0x42 || op === 0x3f || op === 0x40) reader.skipInteger();
  else if (op === 0x43) reader.take(4);
  else if (op === 0x44) reader.take(8);
  else if (op === 0x0e)
    for (let left = reader.unsigned() + 1; left > 0; left--) reader.skipInteger(); // br_table
  else if (op === 0x1c) reader.take(reader.unsigned()); // select with types
  else if (op === PREFIX.misc) return readMisc(reader);
  else if (op === PREFIX.simd) skipSimd(reader);
  else if (op === PREFIX.atomic) skipAtomic(reader);
  else if (!PLAIN.has(op)) throw new Error(`instruction 0x${op.toString(16)} is not known`);
  return 0;
}

/** unreachable, nop, else, end, return, drop, select, ref.is_null */
const PLAIN: ReadonlySet<number> = new Set([0x00, 0x01, 0x05, 0x0b, 0x0f, 0x1a, 0x1b, 0xd1]);

function skipMemoryArgument(reader: ByteReader): void {
  if ((reader.unsigned() & 0x40) !== 0) throw new Error("several memories are not known");
  reader.skipInteger(); // offset
}

function readMisc(reader: ByteReader): number {
  const op = reader.unsigned();
  if (op < 8) return op; // saturating truncations
  if (op > 17) throw new Error(`instruction 0xfc ${op} is not known`);
  const indices = op === 8 || op === 10 || op === 12 || op === 14 ? 2 : 1;
  for (let left = indices; left > 0; left--) reader.skipInteger();
  return op;
}

function skipSimd(reader: ByteReader): void {
  const op = reader.unsigned();
  if (op === 12 || op === 13) reader.take(16); // v128.const, i8x16.shuffle
  else if (op <= 11 || op === 92 || op === 93) skipMemoryArgument(reader);
  else if (op >= 21 && op <= 34) reader.byte(); // lanes
  else if (op >= 84 && op <= 91) {
    skipMemoryArgument(reader);
    reader.byte();
  } else if (op > 0x114) throw new Error(`instruction 0xfd ${op} is not known`);
}

function skipAtomic(reader: ByteReader): void {
  if (reader.unsigned() === 3) reader.byte(); // atomic.fence
  else skipMemoryArgument(reader);
}
