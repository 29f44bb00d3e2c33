/**
 * Owns the programs that tests take from Go's module proxy: one a version, made once, kept in the user's cache folder.
 * It must never touch the network once a program is there, nor fail a test for want of Go.
 */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';

const INSTALL_MS_MAX = 8 * 60_000;
const tools = join(homedir(), '.cache/preface/test-tools');

export type GoTool = { readonly program: string } | { readonly missing: string };

/** @param command path of the package to install. */
export async function goTool(command: string, version: string): Promise<GoTool> {
  const name = basename(command);
  const folder = join(tools, `${name}-${version}`);
  const program = join(folder, name);
  if (existsSync(program)) return { program };
  try {
    mkdirSync(folder, { recursive: true });
    const own = mkdtempSync(join(folder, 'install-'));
    const env = { ...process.env, GOBIN: own, GOPATH: join(own, 'path'), GOFLAGS: '-modcacherw' };
    await promisify(execFile)('go', ['install', `${command}@${version}`], {
      env,
      timeout: INSTALL_MS_MAX,
    });
    // Another test may have made it meanwhile: both are the same.
    renameSync(join(own, name), program);
    rmSync(own, { recursive: true, force: true });
    return { program };
  } catch (cause) {
    const { stderr, message } = cause as { stderr?: string; message: string };
    const line = (stderr?.trim() || message).split('\n').at(-1);
    return { missing: `no ${name} ${version}: ${line}` };
  }
}
