/**
 * Owns bytes on their way to a file: small ones wait for each other, since a write takes longer than the bytes of a page.
 * It must never hold more than `GATHERED_BYTES` and what was added last, nor count what was not added.
 */
import type { FileHandle } from 'node:fs/promises';
import { crc32 } from '../crc32.js';
import type { TakeRoom } from '../room.js';

const GATHERED_BYTES = 64 * 1024;

export class GatheredWrites {
  /** Added so far; all of them are in the file after `flush` alone. */
  bytes = 0;
  crc32 = 0;
  #waiting: Uint8Array[] = [];
  #waitingBytes = 0;

  constructor(
    readonly file: () => Promise<FileHandle>,
    readonly withRoom: TakeRoom,
  ) {}

  /** @throws Error where the disk does not take it. */
  async add(bytes: Uint8Array): Promise<void> {
    this.bytes += bytes.length;
    this.crc32 = crc32(bytes, this.crc32);
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length;
    if (this.#waitingBytes >= GATHERED_BYTES) await this.flush();
  }

  /** @throws Error where the disk does not take it. */
  async flush(): Promise<void> {
    if (this.#waitingBytes === 0) return;
    const bytes = Buffer.concat(this.#waiting, this.#waitingBytes);
    [this.#waiting, this.#waitingBytes] = [[], 0];
    const file = await this.file();
    await this.withRoom(bytes.length, async () => {
      for (let at = 0; at < bytes.length; ) at += (await file.write(bytes, at)).bytesWritten;
    });
  }
}
