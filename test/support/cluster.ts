/**
 * Owns three nodes that share records and files, behind the balancer of `bench/deploy`, as an operator runs them: each is started
 * again when it ends. It must never outlive the test; its processes are ended by their ids.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';
import { freePort } from '../../bench/support/free-port.js';
import { startClusterBalancer } from './balancers.js';
import { intoShards, TestPostgres } from './postgres.js';
import { S3Server } from './s3-server.js';
import { serviceEnv, temporaryFolder } from './service.js';
import { until } from './until.js';

const START_MS_MAX = 120_000;
/** A node that was stopped takes a connection and says nothing. */
const LOOK_MS_MAX = 10_000;
const cli = fileURLToPath(new URL('../../src/cli.js', import.meta.url));

export const operatorKey = 'key-of-the-operator-of-the-cluster';

export class ClusterNode {
  #child: ChildProcess | null = null;
  #stays = true;
  #log = '';
  /** How often it ended, by code or signal. */
  readonly ends: string[] = [];

  constructor(
    readonly port: number,
    readonly env: Readonly<Record<string, string>>,
  ) {}

  start(): void {
    const child = spawn(process.execPath, [cli, 'serve'], {
      env: Object.assign({ PATH: process.env.PATH }, this.env),
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    child.stderr.on('data', (chunk: Buffer) => {
      this.#log = (this.#log + chunk.toString()).slice(-20_000);
    });
    this.#child = child;
    child.once('close', (code, signal) => {
      this.ends.push(String(code ?? signal));
      if (this.#stays) this.start();
    });
  }

  get log(): string {
    return this.#log;
  }

  kill(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
  }

  async ready(): Promise<boolean> {
    const signal = AbortSignal.timeout(LOOK_MS_MAX);
    const asked = fetch(`http://127.0.0.1:${this.port}/ready`, { signal });
    return (await asked.catch(() => null))?.status === 200;
  }

  /** Ends it as an upgrade does, and waits for the next one. */
  async replace(): Promise<void> {
    const before = this.ends.length;
    this.kill('SIGTERM');
    await until(() => this.ends.length > before, START_MS_MAX, 'the end of a node');
    await until(
      () => this.ready(),
      START_MS_MAX,
      () => `a node is ready: ${this.#log}`,
    );
  }

  /** Whether it serves; the others forward to it. */
  async serves(): Promise<boolean> {
    const signal = AbortSignal.timeout(1_000);
    const ready = fetch(`http://127.0.0.1:${this.port}/ready`, { signal });
    const text = await ready.then((response) => response.text()).catch(() => '');
    return text.includes('engines') && text.includes('"ok"');
  }

  async end(): Promise<void> {
    this.#stays = false;
    const child = this.#child;
    if (child === null || child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'close');
  }
}

export interface Cluster {
  /** Of the balancer; without a slash. */
  readonly url: string;
  readonly nodes: readonly ClusterNode[];
}

/** @param keys as `PREFACE_API_KEYS` takes them. @param shards of the records, which the nodes share. */
export async function startCluster(t: Test, keys: string, shards = 1): Promise<Cluster> {
  const database = await TestPostgres.start(t);
  const store = await database.database();
  if (shards > 1) await intoShards(store, temporaryFolder(t), shards);
  const bucket = await S3Server.start(t);
  const nodes = await Promise.all(
    [1, 2, 3].map(async () => {
      const port = await freePort();
      const folder = temporaryFolder(t);
      const env = Object.assign(serviceEnv(join(folder, 'data')), bucket.env(), {
        PREFACE_PORT: String(port),
        PREFACE_STORE: store,
        PREFACE_API_KEYS: keys,
        PREFACE_ADMIN_KEY: operatorKey,
        PREFACE_TOKENIZE_THREADS: '1',
        PREFACE_LOG_LEVEL: 'warn',
      });
      return new ClusterNode(port, env);
    }),
  );
  for (const node of nodes) {
    t.teardown(() => node.end());
    node.start();
    // The first one makes the tables.
    await until(
      () => node.ready(),
      START_MS_MAX,
      () => `a node is ready: ${node.log}`,
    );
  }
  const port = await freePort();
  const errors = startClusterBalancer(t, { port, nodes: nodes.map((node) => node.port) });
  const url = `http://127.0.0.1:${port}`;
  const answers = () =>
    fetch(`${url}/ready`).then(
      ({ ok }) => ok,
      () => false,
    );
  await until(answers, START_MS_MAX, () => `the balancer answers: ${errors()}`);
  return { url, nodes };
}
