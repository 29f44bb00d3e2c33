/**
 * Owns one run of the command line to its end: how it ended, and all that it said.
 * It must never fail for a command that does.
 */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
export const cli = fileURLToPath(new URL('../../src/cli.js', import.meta.url));

export interface Said {
  readonly code: number;
  /** What it printed, then its notes and errors. */
  readonly out: string;
}

export async function preface(env: NodeJS.ProcessEnv, ...args: string[]): Promise<Said> {
  try {
    const { stdout, stderr } = await run(process.execPath, [cli, ...args], { env });
    return { code: 0, out: stdout + stderr };
  } catch (cause) {
    const { code, stdout, stderr } = cause as { code: number; stdout: string; stderr: string };
    return { code, out: stdout + stderr };
  }
}
