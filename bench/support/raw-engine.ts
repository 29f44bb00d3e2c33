/**
 * Owns the process in which the bare engine runs, which communicates by messages.
 * It must never load the engine into the measuring process.
 */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { builtFile, endProcess, startNode } from './processes.js';

export interface RawDecodeTask {
  /** The prompts, with the template's special tokens written out. */
  readonly prompts: readonly string[];
  readonly sequences: number;
  readonly threads: number;
  /** The most tokens of each answer. */
  readonly tokens: number;
}

export interface RawDecoded {
  readonly type: 'decoded';
  readonly ms: number;
  readonly promptTokens: number;
  readonly tokens: number;
}

const ANSWER_MS_MAX = 300_000;

export class RawEngine {
  private constructor(readonly child: ChildProcess) {}

  static async open(weights: string): Promise<RawEngine> {
    const args = [builtFile('bench/support/raw-llama.js'), weights];
    const child = startNode('any', args, { stdio: ['ignore', 2, 'inherit', 'ipc'] });
    await once(child, 'message', { signal: AbortSignal.timeout(ANSWER_MS_MAX) });
    return new RawEngine(child);
  }

  async decode(task: RawDecodeTask): Promise<RawDecoded> {
    const signal = AbortSignal.timeout(ANSWER_MS_MAX);
    const answered = once(this.child, 'message', { signal });
    this.child.send(task);
    const [decoded] = (await answered) as [RawDecoded];
    return decoded;
  }

  close(): Promise<void> {
    return endProcess(this.child);
  }
}
