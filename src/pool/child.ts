/**
 * Owns both ends of a child process with a pipe of frames: its start, and its end with its parent.
 * It must never know what a child does, nor start one again.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { pipeTransport, type Transport } from './transport.js';

/** The pipe the parent makes beside the three standard ones. */
const PIPE_FD = 3;

export interface ChildOptions {
  /** Built file that calls `parentPipe`. */
  readonly entry: URL;
  /** Plain data, found again by `startOf`; by `input` as the first line of standard input. */
  readonly start: unknown;
  /** Options of Node. */
  readonly flags?: readonly string[];
  /** Left out: the parent's own. */
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
  /** Standard output is the server's own: what a child prints goes to standard error, or nowhere. */
  readonly prints: boolean;
  /** For what no list of processes may show. It ends when the parent does. */
  readonly input?: boolean;
  /** Called once or more, also for a child that never ran. */
  readonly onEnd: (child: ChildProcess, how: string) => void;
}

/** @throws Error where there are no file descriptors or no memory for one. */
export function startChild(options: ChildOptions): ChildProcess {
  const { flags = [], env, cwd, prints, input = false } = options;
  const entry = fileURLToPath(options.entry);
  const output = prints ? 2 : 'ignore';
  const text = JSON.stringify(options.start);
  const child = spawn(process.execPath, [...flags, entry, ...(input ? [] : [text])], {
    stdio: [input ? 'pipe' : 'ignore', output, output, 'pipe'],
    ...(env === undefined ? {} : { env }),
    ...(cwd === undefined ? {} : { cwd }),
  });
  // A child that dies at once breaks it; its exit is told apart.
  child.stdin?.on('error', () => {});
  child.stdin?.write(`${text}\n`);
  child.once('error', (error) => options.onEnd(child, error.message));
  child.once('exit', (code, signal) => options.onEnd(child, `${signal ?? `code ${code}`}`));
  return child;
}

/** Null where the system had none to give, whatever the type of a child says, and where the child has closed it already. */
export function childPipe<Out, In>(
  child: ChildProcess | null,
  onFault?: (fault: unknown) => void,
): Transport<Out, In> | null {
  const pipe = (child as { stdio?: ChildProcess['stdio'] } | null)?.stdio?.[PIPE_FD];
  return pipe && !(pipe as Duplex).destroyed
    ? pipeTransport(pipe as Duplex, undefined, onFault)
    : null;
}

/** In the child: what it was started with. */
export function startOf<Start>(): Start {
  return JSON.parse(process.argv[2] ?? '') as Start;
}

/** In the child: the way to its parent, with whom it ends. */
export function parentPipe<Out, In>(): Transport<Out, In> {
  const parent = pipeTransport<Out, In>(
    new Socket({ fd: PIPE_FD, readable: true, writable: true }),
  );
  // A worker in a native call would hold up an ordinary exit.
  parent.onClose(() => process.kill(process.pid, 'SIGKILL'));
  // A terminal's interrupt reaches the whole group; the parent decides when its work has ended.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {});
  return parent;
}
