/**
 * Owns the command line tools that a harness runs: one version a folder, made once, kept in the user's cache folder.
 * It must never run a script of a package, and never fail a test for want of the tool.
 */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const INSTALL_MS_MAX = 5 * 60_000;

export type NpmTool = { readonly folder: string } | { readonly missing: string };

/** Installed where it is, or with `TEST_HARNESSES=1`. @param version pinned: another one has another folder. */
export async function npmTool(name: string, version: string): Promise<NpmTool> {
  const place = `${name.replaceAll(/[^a-z-]/g, '_')}-${version}`;
  const folder = join(homedir(), '.cache/preface/test-tools', place);
  const mark = join(folder, '.ready');
  if (existsSync(mark)) return { folder };
  if (process.env.TEST_HARNESSES !== '1') {
    return { missing: `no ${name}@${version}; TEST_HARNESSES=1 installs it` };
  }
  const install = ['install', '--ignore-scripts', '--no-audit', '--no-fund', `${name}@${version}`];
  try {
    // What an interrupted run left is not to be trusted.
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    await run('npm', [...install, '--prefix', folder], { cwd: folder, timeout: INSTALL_MS_MAX });
    writeFileSync(mark, `${name}@${version}\n`);
    return { folder };
  } catch (cause) {
    return { missing: `no ${name}@${version}: ${String(cause).split('\n')[0]}` };
  }
}
