/**
 * Owns folders of npm packages that only some tests want: made once, kept in the user's cache folder.
 * It must never touch the network once a folder is ready, nor fail a test for want of it.
 */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

export type PackageFolder = { readonly folder: string } | { readonly missing: string };

const folderOf = (name: string) => join(homedir(), '.cache/preface/test-packages', name);

export function packagesAreReady(name: string): boolean {
  return existsSync(join(folderOf(name), '.ready'));
}

/** @param name also tells what is in it: another list of packages needs another name. */
export async function nodePackages(
  name: string,
  packages: readonly string[],
  installMsMax: number,
): Promise<PackageFolder> {
  const folder = folderOf(name);
  if (packagesAreReady(name)) return { folder };
  const options = ['--no-audit', '--no-fund', '--ignore-scripts', '--prefix', folder];
  try {
    // What an interrupted run left is not to be trusted.
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'package.json'), '{"private":true,"type":"module"}\n');
    await run('npm', ['install', ...options, ...packages], { timeout: installMsMax });
    writeFileSync(join(folder, '.ready'), `${packages.join(' ')}\n`);
    return { folder };
  } catch (cause) {
    const { message } = cause as Error;
    return { missing: `no ${packages.join(', ')}: ${message.split('\n')[0]}` };
  }
}
