/**
 * Owns programs that recognise text in pictures for tests: the one of this machine, and scripts that stand for others.
 * It must never put such a script where a service could find it.
 */
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { MessageChannel } from 'node:worker_threads';
import type { Test } from 'tap';
import { systemClock } from '../../src/clock.js';
import { limits } from '../../src/limits/index.js';
import type { ExtractorOptions, PictureToRead } from '../../src/plugin/contract.js';
import { askedThrough } from '../../src/pool/asked-pictures.js';
import {
  choosePictureProgram,
  type PictureChoice,
  type PictureMachine,
  type PictureSettings,
} from '../../src/pool/picture-program.js';
import { type PictureProgram, PictureRun } from '../../src/pool/picture-run.js';
import { findWalls } from '../../src/pool/walls.js';

const usual: PictureSettings = { ocrProgram: 'auto', ocrLanguages: ['eng'], ocrData: null };

/** The walls are those of this machine. */
export async function choice(
  settings: Partial<PictureSettings> = {},
  machine: Partial<PictureMachine> = {},
): Promise<PictureChoice> {
  const memoryBytesMax = limits.extractionMemoryBytesMax;
  const walls = await findWalls({ modules: [], hidden: [], memoryBytesMax });
  return choosePictureProgram({ ...usual, ...settings }, { walls, ...machine });
}

/** What an extractor of this very process is given. */
export function recognizeBy(
  t: Test,
  program: PictureProgram,
): NonNullable<ExtractorOptions['recognize']> {
  const { port1, port2 } = new MessageChannel();
  const runs = { page: new PictureRun(program, 'page'), block: new PictureRun(program, 'block') };
  port1.on('message', async (picture: PictureToRead) => {
    const options = { clock: systemClock, msMax: 60_000, log: (why: string) => t.comment(why) };
    port1.postMessage(await runs[picture.layout].ask(picture, options));
  });
  t.teardown(() => {
    for (const run of Object.values(runs)) run.end('the test is over');
    port1.close();
  });
  return askedThrough(port2);
}

/** hOCR of one line of words, and the words. */
export function hocrOf(words: string): string {
  const spans = words
    .split(' ')
    .map((word) => `<span class='ocrx_word' title='bbox 0 0 9 9; x_wconf 96'>${word}</span>`);
  return [
    '<?xml version="1.0"?>\n <body>\n  <div class=\'ocr_page\'>\n',
    `<span class='ocr_line' title="bbox 0 0 90 9; baseline 0 0">${spans.join('')}</span>\n`,
    `  </div>\n${words}`,
  ].join('');
}

/** What the program writes of the empty picture behind a picture: page 2 behind the first. */
export const emptyPageOf = (page: number | string) =>
  `  <div class='ocr_page' id='page_${page}' title='image "empty"'>\n  </div>\n\f`;

/** Width and height of the trial as the head of its picture holds them, without its zeros. */
const TRIAL = '\x01\x04\x01@\x01\x01\x04\x01@';

export interface FakeProgram {
  readonly file: string;
  /** Where it is found, and what it needs besides itself. */
  readonly machine: Pick<PictureMachine, 'path' | 'alsoSeen'>;
}

/**
 * A script of bash, which can read a part of a file by itself, that answers as version 5 does, and takes the picture of the trial for an empty one.
 * @param shown what it does with any other picture: commands of the shell, or with `node` a program of it.
 */
export function fakeProgram(
  t: Test,
  shown: string,
  { version = '5.3.0', trial = `printf '%s' '${shellQuoted(hocrOf(''))}'` } = {},
): FakeProgram {
  const folder = mkdtempSync(join(tmpdir(), 'preface-program-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'tesseract');
  writeFileSync(join(folder, 'eng.traineddata'), 'a model');
  writeFileSync(
    file,
    `#!/bin/bash
case $1 in
--version) echo 'tesseract ${version}'; exit;;
--list-langs) echo 'List of available languages in "${folder}/" (1):'; exit;;
-) ;;
*) exit;;
esac
page=0
while read -r name; do
  page=$((page + 1))
  case $name in
  */5) printf "${emptyPageOf('$page')}"; continue;;
  esac
  IFS= read -r -N 122 facts <"$name"
  case $facts in
  *'${TRIAL}'*) ${trial}; continue;;
  esac
  ${shown}
done
`,
  );
  chmodSync(folder, 0o755);
  chmodSync(file, 0o755);
  const system = ['/bin', '/lib', '/lib64', '/usr', dirname(process.execPath)];
  return { file, machine: { path: folder, alsoSeen: system.filter((path) => existsSync(path)) } };
}

/** Processes whose command line has this path. */
export function runningOf(path: string): number[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.map(Number).filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(path);
    } catch {
      return false;
    }
  });
}

export const shellQuoted = (text: string) => text.replaceAll("'", "'\\''");
