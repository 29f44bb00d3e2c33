/**
 * Owns the programs that tests take from Go's module proxy: one a version, made once, kept in the user's cache folder.
 * It must never touch the network once a program is there, nor fail a test for want of Go.
 */
import { execFile } from 'node:child_process';
import {
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { homedir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { until } from './until.js';

/** Of the wait and the install together: a test file has fifteen minutes, and wants some for its tests. */
const MAKE_MS_MAX = 6 * 60_000;
const tools = join(homedir(), '.cache/preface/test-tools');

/** A real S3 server, and the reference implementation of the Compose specification, whose program is called `cmd`. */
export const VERSITYGW = ['github.com/versity/versitygw/cmd/versitygw', 'v1.8.0'] as const;
export const COMPOSE = ['github.com/compose-spec/compose-go/v2/cmd', 'v2.16.2'] as const;

export type GoTool = { readonly program: string } | { readonly missing: string };

/** @param command path of the package to install. */
export async function goTool(
  command: string,
  version: string,
  makeMsMax = MAKE_MS_MAX,
): Promise<GoTool> {
  const endMs = performance.now() + makeMsMax;
  const msLeft = () => Math.max(1, Math.floor(endMs - performance.now()));
  const name = basename(command);
  const folder = join(tools, `${name}-${version}`);
  const program = join(folder, name);
  if (existsSync(program)) return { program };
  let lock: string | null = null;
  const took = () => {
    lock = take(folder, makeMsMax);
    return lock !== null;
  };
  try {
    mkdirSync(folder, { recursive: true });
    // Other test files want it at the same time, and it takes all cores for minutes.
    await until(() => existsSync(program) || took(), msLeft(), `${name} is made`);
    if (!existsSync(program)) await install(`${command}@${version}`, program, msLeft());
    return { program };
  } catch (cause) {
    const { stderr, message } = cause as { stderr?: string; message: string };
    const line = (stderr?.trim() || message).split('\n').at(-1);
    return { missing: `no ${name} ${version}: ${line}` };
  } finally {
    if (lock !== null) rmSync(lock, { force: true });
  }
}

/** Neither optimized nor linked with C or for a debugger: that takes two fifths of the work away, and tests do not notice. */
const QUICK = ['-gcflags=all=-N -l', '-ldflags=-s -w'];

async function install(what: string, program: string, msMax: number): Promise<void> {
  // Only the holder of the lock makes such a folder: any that is there is of one that was killed.
  for (const entry of readdirSync(dirname(program))) {
    if (entry.startsWith('install-')) {
      rmSync(join(dirname(program), entry), { recursive: true, force: true });
    }
  }
  const own = mkdtempSync(join(dirname(program), 'install-'));
  try {
    const env = Object.assign({}, process.env, {
      GOBIN: own,
      GOPATH: join(own, 'path'),
      GOFLAGS: '-modcacherw',
      CGO_ENABLED: '0',
    });
    await promisify(execFile)('go', ['install', ...QUICK, what], { env, timeout: msMax });
    renameSync(join(own, basename(program)), program);
  } finally {
    rmSync(own, { recursive: true, force: true });
  }
}

/**
 * The holder of a lock that is dead may be found dead by several at once. So locks are numbered, and the highest counts: the
 * one after the dead one is what they compete for, and nobody removes or renames a lock of another.
 * @returns the lock, null while another process has one.
 */
function take(folder: string, heldMsMax: number): string | null {
  const last = Math.max(0, ...readdirSync(folder).map(numberOf));
  if (last > 0 && isHeld(join(folder, `lock-${last}`), heldMsMax)) return null;
  const lock = join(folder, `lock-${last + 1}`);
  const own = join(folder, `holder-${process.pid}`);
  try {
    // Whole before it has its name: a lock without its holder would be nobody's.
    writeFileSync(own, String(process.pid));
    linkSync(own, lock);
    return lock;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EEXIST') throw cause;
    return null;
  } finally {
    rmSync(own, { force: true });
  }
}

function numberOf(entry: string): number {
  return Number(/^lock-(\d+)$/.exec(entry)?.[1] ?? 0);
}

/** A process that has the number of one that was killed holds nothing: so an old lock is not held, whatever runs. */
function isHeld(lock: string, heldMsMax: number): boolean {
  try {
    const holder = Number(readFileSync(lock, 'utf8'));
    return holder > 0 && isAlive(holder) && Date.now() - statSync(lock).mtimeMs < heldMsMax;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ENOENT') throw cause;
    // Given back since the folder was read: the next look sees what is there.
    return true;
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
