/**
 * Owns what a host needs of the place where an engine runs: a process of its own, or a thread of this one.
 * It must never start an engine again, nor know what an engine does.
 */
import type { FromEngine, HostOpen, ToEngine } from './messages.js';
import type { Transport } from './transport.js';

export interface EngineRunner {
  /** As the log names it. */
  readonly kind: 'process' | 'thread';
  /** Of a process of its own; undefined for a thread, and for a process that never ran. */
  readonly pid: number | undefined;
  /** Whether it showed life when it was last looked for. */
  readonly isLively: boolean;
  /** Resolves when it has ended. */
  readonly ended: Promise<unknown>;
  /** The way to its engine. Once; null where there is none any more. */
  connect(): Transport<ToEngine, FromEngine> | null;
  /** Until then it stands by. */
  open(how: HostOpen): void;
  /** Ends it in whatever state it is. */
  kill(): void;
}

/** Called once or more, also for one that never ran. */
export type OnRunnerEnd = (runner: EngineRunner, how: string) => void;
