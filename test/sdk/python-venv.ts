/**
 * Owns the Python environments of the tests: one a version, made once, kept in the user's cache folder.
 * It must never touch the network once an environment is ready, and never fail a test for want of Python.
 */
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { isReady, settledFolder } from './settled-folder.js';

const run = promisify(execFile);
const INSTALL_MS_MAX = 5 * 60_000;
/** It installs in seconds what takes the installer of Python minutes. */
const UV = { name: 'uv-0.11-alone', requirement: 'uv<0.12' };

export type Venv = { readonly python: string } | { readonly missing: string };

/** The versions that are tested, by the names of their environments. */
export const pythonVersions: Readonly<Record<string, readonly string[]>> = {
  // The HTTP library has since dropped an argument that the first version passes.
  'openai-1.0.0': ['openai==1.0.0', 'httpx<0.28'],
  'openai-3.54.0': ['openai==3.54.0'],
};

export interface VenvOptions {
  readonly installMsMax?: number;
  /** Requirements in place of those that packages have of each other. */
  readonly overrides?: readonly string[];
}

/** Its name, what is in it, and how it is installed. */
export type VenvWanted = readonly [string, readonly string[], VenvOptions?];

/** These ask for newer certificates than every registry serves; nothing that is asked here is encrypted. */
const anyCertificates = { overrides: ['certifi'] };
export const LANGCHAIN: VenvWanted = [
  'langchain-openai-1.7.4',
  ['langchain-openai==1.7.4'],
  anyCertificates,
];
export const LITELLM: VenvWanted = ['litellm-1.109.1', ['litellm==1.109.1'], anyCertificates];

const folderOf = (name: string) => join(homedir(), '.cache/preface/test-venvs', name);

/**
 * What a script imports is compiled as it is first imported, and kept where all scripts look: of a large library most is never
 * imported. Nothing is written beside the scripts.
 */
export const compiledOnce = {
  PYTHONPYCACHEPREFIX: join(homedir(), '.cache/preface/test-bytecode'),
  PYTHONDONTWRITEBYTECODE: '',
};

export function venvIsReady(name: string): boolean {
  return isReady(folderOf(name));
}

/** @param name also tells what is in it: another list of packages needs another name. */
export async function pythonVenv(
  name: string,
  packages: readonly string[],
  { installMsMax = INSTALL_MS_MAX, overrides = [] }: VenvOptions = {},
): Promise<Venv> {
  const folder = folderOf(name);
  const timeout = installMsMax;
  try {
    await settledFolder(folder, async (made) => {
      const uv = await uvProgram(timeout);
      const wanted = join(made, 'overrides.txt');
      // Its programs are to run from the folder that it moves to.
      await run(uv, ['venv', '--quiet', '--relocatable', '--python', 'python3', made], { timeout });
      writeFileSync(wanted, overrides.map((each) => `${each}\n`).join(''));
      const target = ['--quiet', '--python', join(made, 'bin/python')];
      await run(uv, ['pip', 'install', ...target, '--override', wanted, ...packages], { timeout });
    });
    return { python: join(folder, 'bin/python') };
  } catch (cause) {
    return { missing: `no Python with ${packages.join(', ')}: ${lastLine(cause)}` };
  }
}

async function uvProgram(timeout: number): Promise<string> {
  const folder = folderOf(UV.name);
  await settledFolder(folder, async (made) => {
    const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check'];
    await run('python3', ['-m', 'venv', made], { timeout });
    await run(join(made, 'bin/python'), [...pip, UV.requirement], { timeout });
  });
  return join(folder, 'bin/uv');
}

function lastLine(cause: unknown): string {
  const { stderr, message } = cause as { stderr?: string; message: string };
  return (stderr?.trim() || message).split('\n').at(-1) ?? message;
}
