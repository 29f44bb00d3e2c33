/**
 * Owns the process in which the bare engine holds evaluated prefixes, which communicates by messages.
 * It must never load the engine into the measuring process.
 */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { builtFile, endProcess, startNode } from './processes.js';

export type RawPrefixTask =
  /** Evaluates the text and saves its state in `folder` at each of these lengths. */
  | {
      readonly type: 'prepare';
      readonly text: string;
      readonly lengths: readonly number[];
      readonly folder: string;
      readonly threads: number;
    }
  /** Time to the first token after `newTokens`, with the prefix in the sequence, or read from its file first. */
  | {
      readonly type: 'continue';
      readonly length: number;
      readonly newTokens: number;
      readonly from: 'memory' | 'file';
      readonly times: number;
      readonly threads: number;
    };

export interface RawContinued {
  /** Times of all repetitions. */
  readonly ms: readonly number[];
  /** Length of the prefix before the new tokens. */
  readonly prefixTokens: number;
}

const ANSWER_MS_MAX = 300_000;

export class RawPrefixes {
  private constructor(readonly child: ChildProcess) {}

  static async open(weights: string, window: number): Promise<RawPrefixes> {
    const args = [builtFile('bench/support/raw-prefix.js'), weights, String(window)];
    const child = startNode('any', args, { stdio: ['ignore', 2, 'inherit', 'ipc'] });
    await once(child, 'message', { signal: AbortSignal.timeout(ANSWER_MS_MAX) });
    return new RawPrefixes(child);
  }

  async run(task: RawPrefixTask): Promise<RawContinued> {
    const signal = AbortSignal.timeout(ANSWER_MS_MAX);
    const answered = once(this.child, 'message', { signal });
    this.child.send(task);
    const [continued] = (await answered) as [RawContinued];
    return continued;
  }

  close(): Promise<void> {
    return endProcess(this.child);
  }
}
