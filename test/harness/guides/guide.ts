/**
 * Owns how a guide is tried: its blocks as they stand there, with the address and the key of a running service.
 * It must never change a block in any other way: what runs is what a reader copies.
 */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { pageOf, snippetsOf } from '../../support/pages.js';
import type { ServiceProcess } from '../../support/service-process.js';

const RUN_MS_MAX = 120_000;

/** The blocks of a guide in one language, in their order. */
export function blocksOf(guide: string, language: string): string[] {
  const { text } = pageOf(`src/pages/guides/${guide}.md`);
  return snippetsOf(text)
    .filter((snippet) => snippet.language === language)
    .map(({ code }) => code);
}

/** @throws Error for a guide that has no such block. */
export function blockOf(guide: string, language: string, at = 0): string {
  const block = blocksOf(guide, language).at(at);
  if (block === undefined) throw new Error(`${guide} has no block ${at} of ${language}`);
  return block;
}

/** With this service in place of the one that a guide speaks of. */
export function filled(block: string, { url, key }: Pick<ServiceProcess, 'url' | 'key'>): string {
  return block
    .replaceAll('http://127.0.0.1:8080', new URL(url).origin)
    .replaceAll(/sk-\w+-…/g, key);
}

export interface Place {
  /** Home folder and working folder of what runs. */
  readonly home: string;
  /** Folders of programs, before those of the system. */
  readonly programs: readonly string[];
}

export function writeIn({ home }: Place, path: string, text: string): void {
  const file = join(home, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}

export function environmentOf(
  { home, programs }: Place,
  more: Readonly<Record<string, string>> = {},
): Record<string, string> {
  const PATH = [...programs, process.env.PATH ?? ''].join(delimiter);
  return { PATH, HOME: home, DO_NOT_TRACK: '1', NO_COLOR: '1', ...more };
}

/** Runs a block in a shell. @returns what it printed. @throws Error when a command fails. */
export async function runBlock(
  code: string,
  place: Place,
  more: Readonly<Record<string, string>> = {},
): Promise<string> {
  const running = promisify(execFile)('sh', ['-ec', code], {
    cwd: place.home,
    env: environmentOf(place, more),
    timeout: RUN_MS_MAX,
    killSignal: 'SIGKILL',
    maxBuffer: 2 ** 24,
  });
  running.child.stdin?.end();
  return (await running).stdout;
}

/** Ends what a program left running in the background; only where processes can be read as files. */
export function endProcesses({ home }: Place): void {
  if (!existsSync('/proc/self/environ')) return;
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const environment = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
      if (environment.includes(`HOME=${home}`)) process.kill(Number(pid), 'SIGKILL');
    } catch {
      // It has ended by itself, or is somebody else's.
    }
  }
}

/** Where the tools of tests lie. */
export const cacheFolder = join(homedir(), '.cache/preface');
