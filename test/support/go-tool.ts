/**
 * Owns the programs that tests take from Go's module proxy: one a version, made once, kept in the user's cache folder.
 * It must never touch the network once a program is there, nor fail a test for want of Go.
 */
import { execFile } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { homedir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { until } from './until.js';

const INSTALL_MS_MAX = 8 * 60_000;
const tools = join(homedir(), '.cache/preface/test-tools');

export type GoTool = { readonly program: string } | { readonly missing: string };

/** @param command path of the package to install. */
export async function goTool(command: string, version: string): Promise<GoTool> {
  const name = basename(command);
  const folder = join(tools, `${name}-${version}`);
  const program = join(folder, name);
  if (existsSync(program)) return { program };
  const lock = join(folder, 'lock');
  try {
    mkdirSync(folder, { recursive: true });
    // Other test files want it at the same time, and it takes all cores for minutes.
    await until(() => existsSync(program) || took(lock), INSTALL_MS_MAX, `${name} is made`);
    if (!existsSync(program)) await install(`${command}@${version}`, program);
    return { program };
  } catch (cause) {
    const { stderr, message } = cause as { stderr?: string; message: string };
    const line = (stderr?.trim() || message).split('\n').at(-1);
    return { missing: `no ${name} ${version}: ${line}` };
  } finally {
    if (holderOf(lock) === process.pid) rmSync(lock);
  }
}

/** Neither optimized nor linked with C or for a debugger: that takes two fifths of the work away, and tests do not notice. */
const QUICK = ['-gcflags=all=-N -l', '-ldflags=-s -w'];

async function install(what: string, program: string): Promise<void> {
  const own = mkdtempSync(join(dirname(program), 'install-'));
  try {
    const env = Object.assign({}, process.env, {
      GOBIN: own,
      GOPATH: join(own, 'path'),
      GOFLAGS: '-modcacherw',
      CGO_ENABLED: '0',
    });
    await promisify(execFile)('go', ['install', ...QUICK, what], { env, timeout: INSTALL_MS_MAX });
    renameSync(join(own, basename(program)), program);
  } finally {
    rmSync(own, { recursive: true, force: true });
  }
}

function took(lock: string): boolean {
  try {
    writeFileSync(lock, String(process.pid), { flag: 'wx' });
    return true;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EEXIST') throw cause;
  }
  // One that was killed.
  const holder = holderOf(lock);
  if (holder !== null && !isAlive(holder)) rmSync(lock, { force: true });
  return false;
}

/** null for a lock that is not there, or not yet written. */
function holderOf(lock: string): number | null {
  try {
    return Number(readFileSync(lock, 'utf8')) || null;
  } catch {
    return null;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
