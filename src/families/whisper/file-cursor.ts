import { readSync } from "node:fs";

const READ_BYTES = 1 << 16;

/** Reads a file forwards through a small buffer. Every step beyond its end throws an Error. */
export class FileCursor {
  private readonly buffer = Buffer.alloc(READ_BYTES);
  private bufferStart = 0;
  private bufferEnd = 0;
  private position = 0;

  constructor(
    private readonly file: number,
    readonly bytes: number,
  ) {}

  atEnd(): boolean {
    return this.position === this.bytes;
  }

  uint8(): number {
    return this.buffer.readUInt8(this.take(1));
  }

  uint32(): number {
    return this.buffer.readUInt32LE(this.take(4));
  }

  int32(): number {
    return this.buffer.readInt32LE(this.take(4));
  }

  text(length: number): string {
    const start = this.take(length);
    return this.buffer.toString("latin1", start, start + length);
  }

  skip(length: number): void {
    if (length > this.bytes - this.position) throw new Error("it is truncated");
    this.position += length;
  }

  /** Moves over `length` bytes and returns their position in the buffer. */
  private take(length: number): number {
    const start = this.position;
    this.skip(length);
    if (start < this.bufferStart || start + length > this.bufferEnd) {
      const got = readSync(this.file, this.buffer, 0, READ_BYTES, start);
      if (got < length) throw new Error("it became shorter while it was read");
      this.bufferStart = start;
      this.bufferEnd = start + got;
    }
    return start - this.bufferStart;
  }
}
