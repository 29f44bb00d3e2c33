/**
 * Owns memory for large bytes that cross threads: mapped for them alone, moved without a copy, given back at once.
 * It must never use shared memory: no garbage collector counts it, so nothing would free it in time.
 */

/** Bytes alone in their memory, which can be moved to another thread. */
export type OwnBytes = Uint8Array<ArrayBuffer>;

/**
 * Resizable memory is mapped from the system, and unmapped when it is resized to nothing. Other memory waits for a
 * garbage collector, which lets it lie until there is much of it, and the allocator keeps what it once had.
 */
export function newMemory(bytes: number): ArrayBuffer {
  return new ArrayBuffer(bytes, { maxByteLength: bytes });
}

/** Alone in their memory, so that it can be moved; a copy where they are not. */
export function ownBytes(bytes: Uint8Array): OwnBytes {
  const { buffer } = bytes;
  if (buffer instanceof ArrayBuffer && buffer.resizable && buffer.byteLength === bytes.byteLength) {
    return new Uint8Array(buffer, 0, bytes.byteLength);
  }
  return copyOf(bytes);
}

export function copyOf(bytes: Uint8Array): OwnBytes {
  const copy = new Uint8Array(newMemory(bytes.byteLength), 0, bytes.byteLength);
  copy.set(bytes);
  return copy;
}

/** Texts one behind the other, as UTF-8. What is never written takes no memory. */
export class TextMemory {
  readonly #bytes: Buffer<ArrayBuffer>;
  #end = 0;

  constructor(bytesMax: number) {
    this.#bytes = Buffer.from(newMemory(bytesMax), 0, bytesMax);
  }

  /** @throws RangeError where it does not fit. */
  write(text: string): void {
    const end = this.#end + Buffer.byteLength(text);
    if (end > this.#bytes.byteLength) throw new RangeError('a text is longer than its memory');
    this.#bytes.write(text, this.#end);
    this.#end = end;
  }

  /** @param write gets all of it and where to begin, and returns where it ended. */
  fill(write: (into: Uint8Array, at: number) => number): void {
    this.#end = write(this.#bytes, this.#end);
  }

  /** What was written. It is over with the writer. */
  take(): OwnBytes {
    const { buffer } = this.#bytes;
    buffer.resize(this.#end);
    return new Uint8Array(buffer, 0, this.#end);
  }
}

/** Gives the memory back now; nobody may read it any more. What was moved away is not touched. */
export function freeMemory(memory: ArrayBuffer): void {
  if (memory.resizable && memory.byteLength > 0) memory.resize(0);
}

export function freeBytes({ buffer }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer) freeMemory(buffer);
}

/** All such memory inside a value, each once: what can be moved with it. */
export function memoryIn(value: unknown, found = new Set<ArrayBuffer>()): Set<ArrayBuffer> {
  if (value instanceof ArrayBuffer) {
    if (value.resizable) found.add(value);
  } else if (value instanceof Uint8Array) {
    memoryIn(value.buffer, found);
  } else if (typeof value === 'object' && value !== null) {
    for (const inner of Object.values(value)) memoryIn(inner, found);
  }
  return found;
}
