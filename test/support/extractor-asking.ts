/**
 * Owns an extractor that asks for the text of pictures in the way that the document names, on the pipe itself where it must.
 * It must never be opened outside a test.
 */
import { writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { packFrame } from '../../src/codec.js';
import type { ExtractorPlugin, PictureToRead } from '../../src/plugin/contract.js';

/** The pipe of a reader to its parent. */
const PIPE_FD = 3;

/** The head of a list of 30 million items. */
const LISTS = Buffer.from([0xdd, 0x01, 0xc9, 0xc3, 0x80]);

const sound: PictureToRead = {
  width: 200,
  height: 100,
  pixels: new Uint8Array(20_000),
  layout: 'page',
};

/** As one who has taken the reader over: past all that this side looks at. */
async function say(...pictures: readonly unknown[]): Promise<string> {
  return await sayFrame(packFrame(pictures.map((picture) => ({ type: 'picture', picture }))));
}

async function sayFrame(frame: Uint8Array): Promise<string> {
  const head = Buffer.alloc(4);
  head.writeUInt32LE(frame.byteLength);
  const bytes = Buffer.concat([head, frame]);
  for (let at = 0; at < bytes.length; ) {
    try {
      at += writeSync(PIPE_FD, bytes, at);
    } catch (cause) {
      // It is full.
      if ((cause as NodeJS.ErrnoException).code !== 'EAGAIN') throw cause;
      await sleep(1);
    }
  }
  await sleep(60_000);
  return 'nobody minded';
}

type Way = (recognize: (picture: PictureToRead) => Promise<{ text: string }>) => Promise<string>;

const ways: Readonly<Record<string, Way>> = {
  sound: async (recognize) => (await recognize(sound)).text,
  /** Many at a time, in the way of the contract. */
  many: async (recognize) => {
    const all = await Promise.all(Array.from({ length: 20 }, () => recognize(sound)));
    return all.map(({ text }) => text).join(' ');
  },
  forgotten: async (recognize) => {
    void recognize(sound).catch(() => {});
    return 'not awaited';
  },
  thousand: () => say(...Array.from({ length: 1_000 }, () => sound)),
  two: () => say(sound, sound),
  short: () => say({ ...sound, pixels: new Uint8Array(19_999) }),
  long: () => say({ ...sound, pixels: new Uint8Array(20_001) }),
  empty: () => say({ ...sound, width: 0, pixels: new Uint8Array(0) }),
  wide: () => say({ ...sound, width: 40_000, height: 1, pixels: new Uint8Array(40_000) }),
  large: () =>
    say({ ...sound, width: 5_000, height: 5_000, pixels: new Uint8Array(5_000 * 5_000) }),
  negative: () => say({ ...sound, width: -200, height: -100 }),
  fraction: () => say({ ...sound, width: 0.5, height: 40_000 }),
  words: () => say({ ...sound, pixels: 'x'.repeat(20_000) }),
  option: () => say({ ...sound, layout: '--tessdata-dir' }),
  nothing: () => say(null),
  /** In bytes of which each is an empty list. */
  lists: () => sayFrame(Buffer.concat([LISTS, Buffer.alloc(LISTS.readUInt32BE(1), 0x90)])),
};

const plugin: ExtractorPlugin = {
  kind: 'extractor',
  name: 'extractor-asking',
  contract: 1,
  open: async ({ recognize }) => ({
    accepts: () => ({ fileType: 'text/x-way', ground: 'content' }),
    async *extract({ bytes }) {
      const way = ways[Buffer.from(bytes).toString()];
      if (recognize === undefined) yield { text: (await way?.(absent)) ?? '', pages: 1 };
      else yield { text: (await way?.(recognize)) ?? '', pages: 1 };
    },
    close: async () => {},
  }),
};

const absent = async () => ({ text: 'there is no program' });

export default plugin;
