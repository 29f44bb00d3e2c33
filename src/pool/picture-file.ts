/**
 * Owns the two files from which the program that recognises text reads: the picture it is asked for, and an empty one.
 * It must never let another program find them: they have no name, and the program gets them opened for reading.
 */
import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { PictureToRead } from '../plugin/contract.js';

type Grey = Pick<PictureToRead, 'width' | 'height' | 'pixels'>;

export class PictureFiles {
  private constructor(
    private readonly writer: FileHandle,
    private readonly pictureReader: FileHandle,
    private readonly emptyReader: FileHandle,
  ) {}

  /** @throws Error where the system has no room for them. */
  static async open(): Promise<PictureFiles> {
    const folder = await mkdtemp(join(tmpdir(), 'preface-picture-'));
    const opened: FileHandle[] = [];
    const made = async (name: string): Promise<[FileHandle, FileHandle]> => {
      const writer = await open(join(folder, name), 'wx');
      opened.push(writer);
      // Also for a program that runs as another user; nobody else comes through the folder.
      await writer.chmod(0o444);
      const reader = await open(join(folder, name), 'r');
      opened.push(reader);
      return [writer, reader];
    };
    try {
      const [writer, pictureReader] = await made('picture');
      const [emptyWriter, emptyReader] = await made('empty');
      await write(emptyWriter, EMPTY);
      await emptyWriter.close();
      return new PictureFiles(writer, pictureReader, emptyReader);
    } catch (cause) {
      for (const each of opened) await each.close().catch(() => {});
      throw cause;
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  /** To be given to the program. */
  get descriptors(): { readonly picture: number; readonly empty: number } {
    return { picture: this.pictureReader.fd, empty: this.emptyReader.fd };
  }

  async write(picture: Grey): Promise<void> {
    await write(this.writer, picture);
  }

  async close(): Promise<void> {
    await Promise.all([this.writer.close(), this.pictureReader.close(), this.emptyReader.close()]);
  }
}

const SIDE = 16;
const EMPTY: Grey = { width: SIDE, height: SIDE, pixels: new Uint8Array(SIDE * SIDE).fill(255) };

async function write(file: FileHandle, { width, height, pixels }: Grey): Promise<void> {
  const head = tiffHead(width, height);
  await whole(file, head, 0);
  await whole(file, pixels, head.length);
}

async function whole(file: FileHandle, bytes: Uint8Array, from: number): Promise<void> {
  for (let at = 0; at < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes, at, bytes.length - at, from + at);
    at += bytesWritten;
  }
}

const [SHORT, LONG] = [3, 4] as const;
const IFD_AT = 8;

/** Of TIFF with its pixels as they are, in one piece: the program takes them by rows, where it reads each of a PGM by a call. */
function tiffHead(width: number, height: number): Uint8Array {
  const [bits, packing, grey, samples] = [8, 1, 1, 1];
  const tags = (pixelsAt: number) =>
    [
      [256, LONG, width],
      [257, LONG, height],
      [258, SHORT, bits],
      [259, SHORT, packing],
      [262, SHORT, grey],
      [273, LONG, pixelsAt],
      [277, SHORT, samples],
      [278, LONG, height],
      [279, LONG, width * height],
    ] as const;
  const count = tags(0).length;
  const head = Buffer.alloc(IFD_AT + 2 + count * 12 + 4);
  head.write('II*\0', 'latin1');
  head.writeUInt32LE(IFD_AT, 4);
  head.writeUInt16LE(count, IFD_AT);
  for (const [at, [tag, type, value]] of tags(head.length).entries()) {
    const from = IFD_AT + 2 + at * 12;
    head.writeUInt16LE(tag, from);
    head.writeUInt16LE(type, from + 2);
    head.writeUInt32LE(1, from + 4);
    head.writeUInt32LE(value, from + 8);
  }
  return head;
}
