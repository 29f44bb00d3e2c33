/**
 * Owns a process that starts a reader, and prints the reader's process id once the reader loops without end.
 * It must never end by itself: the test that started it kills it.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { systemClock } from '../../src/clock.js';
import { documentBounds } from '../../src/pool/extraction.js';
import { Reader } from '../../src/pool/reader.js';
import { usualWalls } from './walls.js';

const [module = '', folder = '', missing = ''] = process.argv.slice(2);
const options = { bounds: documentBounds, languages: [] };
const reader = new Reader({
  walls: await usualWalls([module], [], missing.split(',')),
  bounds: documentBounds,
  start: { extractors: [{ module, options }], memoryBytesMax: 400 * 2 ** 20 },
  pictures: null,
  clock: systemClock,
  startMsMax: 60_000,
  readMsMax: 120_000,
  pageMsMax: 60_000,
  memoryKeptBytesMax: 400 * 2 ** 20,
  log: console.error,
});
// The reader reports from its own thread before it loops.
const source = join(folder, 'parent.source');
writeFileSync(source, 'page loop');
await reader.read({ source, filename: 'a', target: join(folder, 'parent.json') }, () => {
  console.log(reader.pid);
});
