/**
 * Owns the measuring side of the load: one client process on its own core, asked and answered by messages.
 * It must never generate load itself: the measuring process stays idle meanwhile.
 */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { builtFile, cpuSeconds, endProcess, startNode } from './processes.js';
import { KEY, type Server } from './servers.js';

export interface LoadTask {
  readonly port: number;
  readonly connections: number;
  /** The load ends after this time, or after `requests`, whichever is first; it has one request at least. */
  readonly ms: number;
  readonly requests: number | null;
  /** All bytes of a request, one character per byte. */
  readonly request: string;
  /** Requests as long as that one, which further connections send, in turn. */
  readonly also?: readonly string[];
  /** Index of the nine digits that count the requests. */
  readonly serialAt: number | null;
  /** Pause of a connection after each answer; 0 if absent. */
  readonly gapMs?: number;
}

export type ToClient =
  | { readonly type: 'load'; readonly task: LoadTask }
  | { readonly type: 'open'; readonly task: LoadTask }
  | { readonly type: 'count' }
  | { readonly type: 'close' };

export interface Loaded {
  readonly type: 'loaded';
  readonly requests: number;
  readonly errors: number;
  readonly ms: number;
  /** Latencies of all requests. */
  readonly waitedMs: number;
  /** Of the latencies. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Body of the first answer. */
  readonly body: string;
}

export interface StreamCount {
  readonly type: 'count';
  readonly chunks: number;
  readonly errors: number;
}

const ANSWER_MS_MAX = 120_000;

export class LoadClient {
  readonly #child: ChildProcess;

  constructor() {
    const stdio = ['ignore', 'inherit', 'inherit', 'ipc'] as const;
    this.#child = startNode('client', [builtFile('bench/support/load-client.js')], {
      stdio: [...stdio],
    });
  }

  /**
   * Requests per second of CPU that the server's processes used. On a core of its own that a client keeps busy, this
   * equals requests per second, and other processes on the machine do not change it.
   */
  async load(server: Server, task: Omit<LoadTask, 'port'>): Promise<Loaded & { cpuS: number }> {
    const pids = server.tree();
    const beforeS = cpuSeconds(pids);
    const loaded = await this.#ask<Loaded>({ type: 'load', task: { ...task, port: server.port } });
    return { ...loaded, cpuS: cpuSeconds(pids) - beforeS };
  }

  openStreams(task: LoadTask): Promise<StreamCount> {
    return this.#ask({ type: 'open', task });
  }

  streamCount(): Promise<StreamCount> {
    return this.#ask({ type: 'count' });
  }

  closeStreams(): void {
    this.#child.send({ type: 'close' } satisfies ToClient);
  }

  close(): Promise<void> {
    return endProcess(this.#child);
  }

  async #ask<Answer>(message: ToClient): Promise<Answer> {
    const signal = AbortSignal.timeout(ANSWER_MS_MAX);
    const answered = once(this.#child, 'message', { signal });
    this.#child.send(message);
    const [answer] = (await answered) as [Answer];
    return answer;
  }
}

/** All bytes of a request as the SDKs send it; a string body is JSON already. */
export function requestText(method: string, path: string, body?: object): string {
  const json = body === undefined ? '' : JSON.stringify(body);
  const head = [
    `${method} ${path} HTTP/1.1`,
    'host: 127.0.0.1',
    `authorization: Bearer ${KEY}`,
    ...(body === undefined
      ? []
      : ['content-type: application/json', `content-length: ${Buffer.byteLength(json)}`]),
  ];
  return `${head.join('\r\n')}\r\n\r\n${json}`;
}

/** The digits in a request text that the client counts up. */
export const SERIAL = '000000000';
