/**
 * Owns the command line tools that a harness runs: one version a folder, made once, kept in the user's cache folder.
 * It must never run a script of a package, and never fail a test for want of the tool.
 */
import { execFile } from 'node:child_process';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { isReady, settledFolder } from '../sdk/settled-folder.js';

const run = promisify(execFile);
const INSTALL_MS_MAX = 5 * 60_000;

export type NpmTool = { readonly folder: string } | { readonly missing: string };

/** Installed where it is, or with `TEST_HARNESSES=1`. @param version pinned: another one has another folder. */
export async function npmTool(name: string, version: string): Promise<NpmTool> {
  const place = `${name.replaceAll(/[^a-z-]/g, '_')}-${version}`;
  const folder = join(homedir(), '.cache/preface/test-tools', place);
  if (process.env.TEST_HARNESSES !== '1' && !isReady(folder)) {
    return { missing: `no ${name}@${version}; TEST_HARNESSES=1 installs it` };
  }
  const install = ['install', '--ignore-scripts', '--no-audit', '--no-fund', `${name}@${version}`];
  try {
    await settledFolder(folder, async (made) => {
      await run('npm', [...install, '--prefix', made], { cwd: made, timeout: INSTALL_MS_MAX });
    });
    return { folder };
  } catch (cause) {
    return { missing: `no ${name}@${version}: ${String(cause).split('\n')[0]}` };
  }
}
