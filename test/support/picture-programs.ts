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
import { type PictureProgram, startPicture } from '../../src/pool/picture-run.js';
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
  port1.on('message', async (picture: PictureToRead) => {
    const options = { clock: systemClock, msMax: 60_000, log: (why: string) => t.comment(why) };
    port1.postMessage(await startPicture(program, picture, options).answer);
  });
  t.teardown(() => port1.close());
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
    `  </div>\n${words}\n </body>\n</html>\n`,
  ].join('');
}

export interface FakeProgram {
  readonly file: string;
  /** Where it is found, and what it needs besides itself. */
  readonly machine: Pick<PictureMachine, 'path' | 'alsoSeen'>;
}

/**
 * A script of the shell that answers as version 5 does, and takes the picture of the trial for an empty one.
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
    `#!/bin/sh
case $1 in
--version) echo 'tesseract ${version}'; exit;;
--list-langs) echo 'List of available languages in "${folder}/" (1):'; exit;;
stdin) ;;
*) exit;;
esac
read -r magic
read -r size
if [ "$size" = '64 64' ]; then ${trial}; exit; fi
${shown}
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
