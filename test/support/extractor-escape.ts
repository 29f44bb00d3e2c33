/**
 * Owns an extractor that tries to get out of its process, by the way that the document names, past what JavaScript forbids.
 * It must never be opened outside a test.
 */
import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import type { ExtractorPlugin } from '../../src/plugin/contract.js';

/** What Node's own modules stand on. `process.binding` is not in the types. */
type Binding = Readonly<Record<string, new (...args: readonly unknown[]) => Handle>>;
interface Handle {
  readonly [name: string]: (...args: readonly unknown[]) => unknown;
}

function binding(name: string): Binding {
  const { binding: find } = process as unknown as { binding(name: string): Binding };
  return find.call(process, name);
}

/** @throws Error where a call says that it did not work. */
function done(code: unknown, call: string): void {
  if (code !== 0) throw new Error(`${call}: ${JSON.stringify(code)}`);
}

/** The request has to live until it is answered. @throws Error where nobody answers. */
async function asked(request: object, start: () => unknown): Promise<void> {
  const answered = new Promise<number>((resolve) => {
    Object.assign(request, { oncomplete: resolve });
  });
  done(start(), 'connect');
  done(await answered, 'connected');
}

async function tcp(port: string): Promise<void> {
  const { TCP, TCPConnectWrap } = binding('tcp_wrap');
  if (TCP === undefined || TCPConnectWrap === undefined) throw new Error('no sockets');
  const [socket, request] = [new TCP(0), new TCPConnectWrap()];
  await asked(request, () => socket.connect?.(request, '127.0.0.1', Number(port)));
}

async function unix(path: string): Promise<void> {
  const { Pipe, PipeConnectWrap } = binding('pipe_wrap');
  if (Pipe === undefined || PipeConnectWrap === undefined) throw new Error('no pipes');
  const [socket, request] = [new Pipe(0), new PipeConnectWrap()];
  await asked(request, () => {
    socket.connect?.(request, path);
    return 0;
  });
}

async function udp(port: string): Promise<void> {
  const { UDP, SendWrap } = binding('udp_wrap');
  if (UDP === undefined || SendWrap === undefined) throw new Error('no datagrams');
  const [socket, request] = [new UDP(), new SendWrap()];
  const sent = socket.send?.(request, [Buffer.from('hello')], 1, Number(port), '127.0.0.1', false);
  if (!(Number(sent) > 0)) throw new Error(`send: ${sent}`);
}

function spawned(file: string): void {
  const { spawn } = binding('spawn_sync') as unknown as { spawn(options: object): object };
  const options = { file: '/bin/sh', args: ['sh', '-c', `echo out > ${file}`], stdio: [] };
  const { error, status } = spawn({ ...options, envPairs: [] }) as Record<string, number>;
  if (error !== undefined || status !== 0) throw new Error(`spawn: ${error} ${status}`);
}

/** A thread without the guard, which is loaded by an option of Node. */
async function thread(source: string): Promise<void> {
  const worker = new Worker(source, { eval: true, execArgv: [], env: {} });
  const [code] = (await once(worker, 'exit')) as [number];
  done(code, 'thread');
}

const ways: Readonly<Record<string, (rest: string) => unknown>> = {
  tcp,
  udp,
  unix,
  spawn: spawned,
  'thread-tcp': (port) =>
    thread(`
      const socket = require('node:net').connect(${Number(port)}, '127.0.0.1');
      socket.on('connect', () => process.exit(0)).on('error', () => process.exit(1));`),
  'thread-spawn': (file) =>
    thread(`
      const { status } = require('node:child_process').spawnSync('touch', [${JSON.stringify(file)}]);
      process.exit(status === 0 ? 0 : 1);`),
  'thread-read': (path) => thread(`require('node:fs').readFileSync(${JSON.stringify(path)})`),
  'thread-write': (path) =>
    thread(`require('node:fs').writeFileSync(${JSON.stringify(path)}, 'out')`),
  read: (path) => readFileSync(path),
  write: (path) => writeFileSync(path, 'out'),
  /** Any process that it sees, but itself, of which it could read the environment. */
  environments: () => {
    const numbers = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
    const others = numbers.filter((name) => Number(name) !== process.pid);
    const seen = others.map((pid) => readEnvironment(pid)).filter((text) => text !== '');
    if (seen.length === 0) throw new Error('none to see');
  },
  own: (name) => {
    if (process.env[name] === undefined) throw new Error('not there');
  },
  kill: (pid) => process.kill(Number(pid), 0),
  memory: (pid) => readFileSync(`/proc/${pid}/mem`),
};

function readEnvironment(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8');
  } catch {
    return '';
  }
}

const plugin: ExtractorPlugin = {
  kind: 'extractor',
  name: 'extractor-escape',
  contract: 1,
  open: async () => ({
    accepts: () => ({ fileType: 'text/x-way', ground: 'content' }),
    async *extract({ bytes }) {
      const [way = '', ...rest] = Buffer.from(bytes).toString().split(' ');
      try {
        await ways[way]?.(rest.join(' '));
        yield { text: `${way} is open`, pages: 1 };
      } catch (cause) {
        yield { text: `${way} is closed: ${cause}`, pages: 1 };
      }
    },
    close: async () => {},
  }),
};

export default plugin;
