/**
 * Owns a real S3 server for a test: its own folder and port, one bucket, and faults that a proxy before it makes.
 * It must never outlive its test, nor answer in place of the server but with a fault that the test asked for.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import {
  createServer,
  type IncomingMessage,
  request,
  type Server,
  type ServerResponse,
} from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Test } from 'tap';
import { freePort } from '../../bench/support/free-port.js';
import { type Clock, systemClock } from '../../src/clock.js';
import type { S3Key } from '../../src/settings/types.js';
import { S3 } from '../../src/store/s3.js';
import { goTool, VERSITYGW } from './go-tool.js';
import { temporaryFolder } from './service.js';

export const s3Key: S3Key = { id: 'preface-test', secret: 'secret+of/the-test', token: null };
const tool = await goTool(...VERSITYGW);
export const s3Missing: string | false = 'missing' in tool && tool.missing;

type Doing = 503 | 'cut' | 'silent' | null;
/** What the proxy does with a request, which waits for the answer: null lets it pass. */
export type Fault = (method: string, path: string) => Doing | Promise<Doing>;

export class S3Server {
  #child: ChildProcess | null = null;
  #port = 0;
  #proxyPort = 0;
  /** Method and path of each request, in order. */
  readonly asked: string[] = [];
  fault: Fault = () => null;
  /** So many answers that change something reach nobody. */
  loseAnswers = 0;

  private constructor(readonly folder: string) {}

  static async start(t: Pick<Test, 'teardown'>): Promise<S3Server> {
    const server = new S3Server(temporaryFolder(t));
    mkdirSync(join(server.folder, 'bucket'));
    server.#port = await freePort();
    t.teardown(() => server.stop());
    const proxy = createServer((asked, answer) => server.#pass(asked, answer));
    proxy.listen(0, '127.0.0.1');
    await once(proxy, 'listening');
    server.#proxyPort = (proxy.address() as AddressInfo).port;
    t.teardown(() => end(proxy));
    await server.run();
    return server;
  }

  /** Of the bucket, as the setting takes it. */
  address(): string {
    return `s3://bucket/p?endpoint=http://127.0.0.1:${this.#proxyPort}`;
  }

  env(): Record<string, string> {
    return {
      PREFACE_BLOBS: this.address(),
      AWS_ACCESS_KEY_ID: s3Key.id,
      AWS_SECRET_ACCESS_KEY: s3Key.secret,
    };
  }

  client(key: S3Key = s3Key, clock: Clock = systemClock): S3 {
    const endpoint = `http://127.0.0.1:${this.#proxyPort}`;
    const address = { endpoint, region: 'us-east-1', bucket: 'bucket', prefix: 'p/' };
    return new S3({ address, key, clock });
  }

  /** Names in the server's own folder. */
  objects(): string[] {
    const names = readdirSync(join(this.folder, 'bucket/p')) as string[];
    return names.filter((name) => name !== 'preface-owner').sort();
  }

  bytes(name: string): Buffer {
    return readFileSync(join(this.folder, 'bucket/p', name));
  }

  /** As a disk that lost some of them. */
  change(name: string): void {
    const path = join(this.folder, 'bucket/p', name);
    const bytes = readFileSync(path);
    const at = Math.floor(bytes.length / 2);
    bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at);
    writeFileSync(path, bytes);
  }

  async run(): Promise<void> {
    if (!('program' in tool)) throw new Error(tool.missing);
    const own = ['--port', `127.0.0.1:${this.#port}`, '--access', s3Key.id, '--quiet'];
    const args = [...own, '--secret', s3Key.secret, 'posix', this.folder];
    this.#child = spawn(tool.program, args, { stdio: 'ignore' });
    for (let tries = 0; !(await answers(this.#port)); tries += 1) {
      if (tries === 600 || this.#child.exitCode !== null) throw new Error('no S3 server');
      await pause(50);
    }
  }

  async stop(): Promise<void> {
    const child = this.#child;
    this.#child = null;
    if (child === null || child.exitCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'close');
  }

  async #pass(asked: IncomingMessage, answer: ServerResponse): Promise<void> {
    const [method, path] = [asked.method ?? '', asked.url ?? ''];
    this.asked.push(`${method} ${path}`);
    const fault = await this.fault(method, path);
    if (fault === 'cut') asked.socket.destroy();
    if (fault === 503) {
      asked.resume();
      answer.writeHead(503).end('<Error><Code>SlowDown</Code></Error>');
    }
    if (fault !== null) return;
    const options = { port: this.#port, host: '127.0.0.1', method, path, headers: asked.headers };
    const passed = request(options, (got) => {
      const ends =
        method === 'POST' ? path.includes('uploadId') : method === 'PUT' && !path.includes('?');
      if (this.loseAnswers > 0 && ends) {
        this.loseAnswers -= 1;
        got.resume().on('end', () => asked.socket.destroy());
        return;
      }
      answer.writeHead(got.statusCode ?? 500, got.headers);
      got.pipe(answer);
    });
    passed.on('error', () => asked.socket.destroy());
    asked.pipe(passed);
  }
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}

async function end(proxy: Server): Promise<void> {
  proxy.closeAllConnections();
  proxy.close();
  await once(proxy, 'close');
}
