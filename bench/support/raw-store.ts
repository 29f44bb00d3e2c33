/**
 * Owns the process in which the bare store writes, which communicates by messages and runs on the servers' core.
 * It must never write in the measuring process.
 */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { builtFile, endProcess, startNode } from './processes.js';

export interface RawWriteTask {
  readonly writes: number;
  /** Concurrent writers, each of which waits until its write is on the disk. */
  readonly together: number;
}

export interface RawWritten {
  readonly ms: number;
  readonly written: number;
}

const ANSWER_MS_MAX = 120_000;

export class RawStore {
  private constructor(readonly child: ChildProcess) {}

  static async open(folder: string): Promise<RawStore> {
    const args = [builtFile('bench/support/raw-lmdb.js'), folder];
    const child = startNode('server', args, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
    await once(child, 'message', { signal: AbortSignal.timeout(ANSWER_MS_MAX) });
    return new RawStore(child);
  }

  async write(writes: number, together: number): Promise<RawWritten> {
    const signal = AbortSignal.timeout(ANSWER_MS_MAX);
    const answered = once(this.child, 'message', { signal });
    this.child.send({ writes, together } satisfies RawWriteTask);
    const [written] = (await answered) as [RawWritten];
    return written;
  }

  close(): Promise<void> {
    return endProcess(this.child);
  }
}
