/**
 * Owns the end of keys in what the system shows of this process: its first environment and its command line.
 * It must never be called before the settings are read, nor fail where the system shows nothing.
 *
 * Linux shows the memory in which a process got its environment, whatever becomes of the variables: every process of the same
 * user may read it. So the bytes themselves are overwritten, through the file of the process's own memory.
 */
import { closeSync, existsSync, openSync, readFileSync, writeSync } from 'node:fs';
import { isSecretName } from '../environment.js';

const SHOWN = '/proc/self/environ';
/** In `/proc/self/stat`, counted after the name, which may hold spaces. */
const ENVIRONMENT_AT = 47;

/**
 * @param title of the process from now on, where a flag gave a key; null: its command line stays.
 * @returns false where the system shows the keys all the same.
 */
export function wipeSecrets(title: string | null): boolean {
  const names = Object.keys(process.env).filter(isSecretName);
  for (const name of names) delete process.env[name];
  // It is written over the arguments.
  if (title !== null) process.title = title;
  // Without `/proc` nobody reads it there.
  if (names.length === 0 || !existsSync(SHOWN)) return true;
  try {
    wipe(new Set(names));
    return [...entriesOf(readFileSync(SHOWN), new Set(names))].length === 0;
  } catch {
    return false;
  }
}

function wipe(names: ReadonlySet<string>): void {
  const bytes = readFileSync(SHOWN);
  const start = startOfEnvironment();
  const memory = openSync('/proc/self/mem', 'r+');
  try {
    for (const { at, length } of entriesOf(bytes, names)) {
      writeSync(memory, Buffer.alloc(length), 0, length, start + at);
    }
  } finally {
    closeSync(memory);
  }
}

function* entriesOf(bytes: Buffer, names: ReadonlySet<string>) {
  for (let at = 0; at < bytes.length; ) {
    const end = bytes.indexOf(0, at);
    const length = (end < 0 ? bytes.length : end) - at;
    const [name = ''] = bytes.toString('latin1', at, at + length).split('=', 1);
    if (names.has(name)) yield { at, length };
    at += length + 1;
  }
}

function startOfEnvironment(): number {
  const stat = readFileSync('/proc/self/stat', 'latin1');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return Number(fields[ENVIRONMENT_AT]);
}
