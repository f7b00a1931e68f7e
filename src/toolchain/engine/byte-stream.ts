// Byte streams: read and write a WebAssembly binary in order (core specification 3.0, section 5.2: LEB128 integers).

export class ByteReader {
  readonly bytes: Uint8Array;
  offset: number;

  constructor(bytes: Uint8Array, offset = 0) {
    this.bytes = bytes;
    this.offset = offset;
  }

  get isAtEnd(): boolean {
    return this.offset >= this.bytes.byteLength;
  }

  /** @throws Error at the end of the bytes, as all other methods do */
  readByte(): number {
    const value = this.bytes[this.offset++];
    if (value === undefined) throw new Error("the module is truncated");
    return value;
  }

  readUleb128(): number {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = this.readByte();
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
  }

  /** Skips an integer of any width, signed or unsigned. */
  skipLeb128(): void {
    while (this.readByte() >= 0x80);
  }

  /** @returns a view, not a copy */
  readBytes(count: number): Uint8Array {
    const end = this.offset + count;
    if (end > this.bytes.byteLength) throw new Error("the module is truncated");
    const view = this.bytes.subarray(this.offset, end);
    this.offset = end;
    return view;
  }

  readName(): string {
    return new TextDecoder().decode(this.readBytes(this.readUleb128()));
  }
}

export class ByteWriter {
  #bytes = new Uint8Array(1024);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  writeByte(value: number): this {
    this.#reserve(1);
    this.#bytes[this.#length++] = value;
    return this;
  }

  writeUleb128(value: number): this {
    let rest = value;
    for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) this.writeByte((rest % 0x80) | 0x80);
    return this.writeByte(rest);
  }

  /** Writes a 32-bit signed integer. */
  writeSleb128(value: number): this {
    let rest = value | 0;
    for (;;) {
      const low = rest & 0x7f;
      rest >>= 7;
      const done = (rest === 0 && (low & 0x40) === 0) || (rest === -1 && (low & 0x40) !== 0);
      this.writeByte(done ? low : low | 0x80);
      if (done) return this;
    }
  }

  writeBytes(values: Uint8Array): this {
    this.#reserve(values.byteLength);
    this.#bytes.set(values, this.#length);
    this.#length += values.byteLength;
    return this;
  }

  writeName(text: string): this {
    const encoded = new TextEncoder().encode(text);
    return this.writeUleb128(encoded.byteLength).writeBytes(encoded);
  }

  finish(): Uint8Array<ArrayBuffer> {
    return this.#bytes.slice(0, this.#length);
  }

  #reserve(count: number): void {
    if (this.#length + count <= this.#bytes.byteLength) return;
    const larger = new Uint8Array(Math.max(this.#length + count, 2 * this.#bytes.byteLength));
    larger.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = larger;
  }
}
