/** Owns the proof that frames arrive whole however their bytes come, and that bytes which wait take their own room alone. */
import t from 'tap';
import { seededRandom, testSeed } from '../../src/plugin/test/random-text.js';
import { FrameReader } from '../../src/pool/transport.js';

function framed(body: Uint8Array): Buffer {
  const head = Buffer.alloc(4);
  head.writeUInt32LE(body.length);
  return Buffer.concat([head, body]);
}

t.test('frames arrive whole and in order, wherever they are cut', async (t) => {
  const bodies = [0, 1, 3, 200_000, 0, 5].map((length, at) => Buffer.alloc(length, at + 1));
  const bytes = Buffer.concat(bodies.map(framed));
  const seed = testSeed();
  t.comment(`seed ${seed}`);
  const random = seededRandom(seed);
  for (let run = 0; run < 50; run++) {
    const came: Buffer[] = [];
    const reader = new FrameReader((body) => came.push(body));
    const most = 1 + random(2 ** (1 + random(17)));
    for (let at = 0; at < bytes.length; ) {
      const end = at + 1 + random(most);
      // What came before must not change with what comes behind it.
      reader.push(Buffer.from(bytes.subarray(at, end)));
      at = end;
    }
    t.strictSame(came, bodies, `parts of up to ${most} bytes`);
  }
});

t.test('a frame that comes byte by byte takes its own bytes', async (t) => {
  const reader = new FrameReader(() => {});
  const head = Buffer.alloc(4);
  head.writeUInt32LE(2_000_000);
  reader.push(head);
  const before = process.memoryUsage.rss();
  for (let at = 0; at < 1_000_000; at++) reader.push(Buffer.from([at]));
  const grown = process.memoryUsage.rss() - before;
  t.ok(grown < 60_000_000, `${grown} bytes`);
});
