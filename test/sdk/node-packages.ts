/**
 * Owns folders of npm packages that only some tests want: made once, kept in the user's cache folder.
 * It must never touch the network once a folder is ready, nor fail a test for want of it.
 */
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { isReady, settledFolder } from './settled-folder.js';

const run = promisify(execFile);

export type PackageFolder = { readonly folder: string } | { readonly missing: string };

const folderOf = (name: string) => join(homedir(), '.cache/preface/test-packages', name);

export function packagesAreReady(name: string): boolean {
  return isReady(folderOf(name));
}

/** @param name also tells what is in it: another list of packages needs another name. */
export async function nodePackages(
  name: string,
  packages: readonly string[],
  installMsMax: number,
): Promise<PackageFolder> {
  const folder = folderOf(name);
  try {
    await settledFolder(folder, async (made) => {
      const options = ['--no-audit', '--no-fund', '--ignore-scripts', '--prefix', made];
      writeFileSync(join(made, 'package.json'), '{"private":true,"type":"module"}\n');
      await run('npm', ['install', ...options, ...packages], { timeout: installMsMax });
    });
    return { folder };
  } catch (cause) {
    const { message } = cause as Error;
    return { missing: `no ${packages.join(', ')}: ${message.split('\n')[0]}` };
  }
}
