/**
 * Owns the documents that the benches read: real documents of the tests.
 * It must never hold one that the tests do not.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export function documentPath(name: string): string {
  return fileURLToPath(new URL(`../../../test/documents/${name}`, import.meta.url));
}

/** Whether a program for comparison is installed. */
export function hasProgram(name: string): boolean {
  return spawnSync('sh', ['-c', `command -v ${name}`]).status === 0;
}

/** Seconds of CPU that a shell command and its children take. @throws Error where it fails. */
export function shellCpuSeconds(command: string, args: readonly string[]): number {
  const script = `TIMEFORMAT='%U %S'; time { ${command}\n}`;
  const { status, stderr } = spawnSync('bash', ['-c', script, 'bash', ...args], {
    encoding: 'utf8',
    env: { ...process.env, LC_ALL: 'C.UTF-8', OMP_THREAD_LIMIT: '1' },
  });
  const [user, system] = stderr.trim().split('\n').at(-1)?.split(' ').map(Number) ?? [];
  if (status !== 0 || user === undefined || system === undefined) {
    throw new Error(`${command}: ${stderr}`);
  }
  return user + system;
}
