// Instruction reader: walks the instructions of a function body (WebAssembly core specification 3.0, section 5.4). It
// finds calls, blocks, data segment uses and the end of every instruction.

import type { ByteReader } from "./byte-stream.ts";

export const OPCODE = {
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

const OPCODE_PREFIX = { misc: 0xfc, simd: 0xfd, atomic: 0xfe } as const;

/** Whether an instruction is memory.init or data.drop, which need the data segments. */
export const usesDataSegment = ({ opcode, operand }: Instruction): boolean =>
  opcode === OPCODE_PREFIX.misc && (operand === 8 || operand === 9);

export interface Instruction {
  readonly opcode: number;
  /** Offset of the first byte. */
  readonly startOffset: number;
  /** Offset of the first byte after the instruction. */
  readonly endOffset: number;
  /** Function of `call` and `ref.func`, type of `call_indirect`, number after the prefix 0xfc; 0 for all others. */
  readonly operand: number;
}

/** @throws Error for an unknown instruction, because skipping it wrongly would corrupt the rest */
export function readInstruction(reader: ByteReader): Instruction {
  const startOffset = reader.offset;
  const opcode = reader.readByte();
  const operand = readImmediates(reader, opcode);
  return { opcode, startOffset, endOffset: reader.offset, operand };
}

function readImmediates(reader: ByteReader, op: number): number {
  if (op === OPCODE.call || op === OPCODE.refFunc) return reader.readUleb128();
  if (op === OPCODE.callIndirect) {
    const type = reader.readUleb128();
    reader.skipLeb128(); // table
    return type;
  }
  if (op >= 0x45 && op <= 0xc4) return 0; // comparisons, arithmetic, conversions
  if (op >= 0x28 && op <= 0x3e) skipMemoryArgument(reader);
  else if ((op >= 0x20 && op <= 0x26) || op === 0x0c || op === 0x0d) reader.skipLeb128(); // locals, globals, tables; br, br_if
  else if (op === OPCODE.block || op === OPCODE.loop || op === OPCODE.if) reader.skipLeb128(); // block type
  else if (op === OPCODE.i32Const || op === 0x42 || op === 0x3f || op === 0x40) reader.skipLeb128();
  else if (op === 0x43) reader.readBytes(4);
  else if (op === 0x44) reader.readBytes(8);
  else if (op === 0x0e)
    for (let left = reader.readUleb128() + 1; left > 0; left--) reader.skipLeb128(); // br_table
  else if (op === 0x1c) reader.readBytes(reader.readUleb128()); // select with types
  else if (op === OPCODE_PREFIX.misc) return readMiscImmediates(reader);
  else if (op === OPCODE_PREFIX.simd) skipSimdImmediates(reader);
  else if (op === OPCODE_PREFIX.atomic) skipAtomicImmediates(reader);
  else if (!OPCODES_WITHOUT_IMMEDIATES.has(op))
    throw new Error(`unknown instruction 0x${op.toString(16)}`);
  return 0;
}

/** unreachable, nop, else, end, return, drop, select, ref.is_null */
const OPCODES_WITHOUT_IMMEDIATES: ReadonlySet<number> = new Set([
  0x00, 0x01, 0x05, 0x0b, 0x0f, 0x1a, 0x1b, 0xd1,
]);

function skipMemoryArgument(reader: ByteReader): void {
  if ((reader.readUleb128() & 0x40) !== 0) throw new Error("multiple memories are unsupported");
  reader.skipLeb128(); // offset
}

function readMiscImmediates(reader: ByteReader): number {
  const op = reader.readUleb128();
  if (op < 8) return op; // saturating truncations
  if (op > 17) throw new Error(`unknown instruction 0xfc ${op}`);
  const indices = op === 8 || op === 10 || op === 12 || op === 14 ? 2 : 1;
  for (let left = indices; left > 0; left--) reader.skipLeb128();
  return op;
}

function skipSimdImmediates(reader: ByteReader): void {
  const op = reader.readUleb128();
  if (op === 12 || op === 13) reader.readBytes(16); // v128.const, i8x16.shuffle
  else if (op <= 11 || op === 92 || op === 93) skipMemoryArgument(reader);
  else if (op >= 21 && op <= 34) reader.readByte(); // lanes
  else if (op >= 84 && op <= 91) {
    skipMemoryArgument(reader);
    reader.readByte();
  } else if (op > 0x114) throw new Error(`unknown instruction 0xfd ${op}`);
}

function skipAtomicImmediates(reader: ByteReader): void {
  if (reader.readUleb128() === 3) reader.readByte(); // atomic.fence
  else skipMemoryArgument(reader);
}
