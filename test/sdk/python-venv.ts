/**
 * Owns the Python environments of the SDK tests: one a version, made once, kept in the user's cache folder.
 * It must never touch the network once an environment is ready, and never fail a test for want of Python.
 */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const INSTALL_MS_MAX = 5 * 60_000;

export type Venv = { readonly python: string } | { readonly missing: string };

/** The versions that are tested, by the names of their environments. */
export const pythonVersions: Readonly<Record<string, readonly string[]>> = {
  // The HTTP library has since dropped an argument that the first version passes.
  'openai-1.0.0': ['openai==1.0.0', 'httpx<0.28'],
  'openai-3.54.0': ['openai==3.54.0'],
};

const folderOf = (name: string) => join(homedir(), '.cache/preface/test-venvs', name);
const markOf = (name: string) => join(folderOf(name), '.ready');

export function venvIsReady(name: string): boolean {
  return existsSync(markOf(name));
}

/** @param name also tells what is in it: another list of packages needs another name. */
export async function pythonVenv(
  name: string,
  packages: readonly string[],
  installMsMax = INSTALL_MS_MAX,
): Promise<Venv> {
  const folder = folderOf(name);
  const python = join(folder, 'bin/python');
  if (venvIsReady(name)) return { python };
  const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...packages];
  try {
    // What an interrupted run left is not to be trusted.
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    await run('python3', ['-m', 'venv', folder], { timeout: installMsMax });
    await run(python, pip, { timeout: installMsMax });
    writeFileSync(markOf(name), `${packages.join(' ')}\n`);
    return { python };
  } catch (cause) {
    return { missing: `no Python with ${packages.join(', ')}: ${lastLine(cause)}` };
  }
}

function lastLine(cause: unknown): string {
  const { stderr, message } = cause as { stderr?: string; message: string };
  return (stderr?.trim() || message).split('\n').at(-1) ?? message;
}
