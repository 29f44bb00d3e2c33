/**
 * Owns a PostgreSQL of a test's own: made, started, stopped and started again in a temporary folder.
 * It must never outlive the test; it is ended by its process id.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import pg from 'pg';
import type { Test } from 'tap';
import { freePort } from '../../bench/support/free-port.js';
import { systemClock } from '../../src/clock.js';
import { PostgresConnection } from '../../src/store/postgres-connection.js';
import { openPostgres } from '../../src/store/postgres-node.js';
import { makeParts } from '../../src/store/postgres-part.js';
import { until } from './until.js';

const DEBIAN = '/usr/lib/postgresql';
const START_MS_MAX = 60_000;
export const postgresPassword = 'a-password-of-the-test';

/** Where Debian's package has its programs; they are not on the path. */
function programs(): string | null {
  const versions = existsSync(DEBIAN) ? readdirSync(DEBIAN) : [];
  const newest = versions.map(Number).sort((one, other) => other - one)[0];
  const folder = join(DEBIAN, String(newest), 'bin');
  return existsSync(join(folder, 'initdb')) ? folder : null;
}

const bin = programs();
export const skipPostgres = bin === null ? 'there is no PostgreSQL (Debian: postgresql)' : false;

/** PostgreSQL refuses to run as root. */
function owner(): { uid: number; gid: number } | object {
  if (process.getuid?.() !== 0) return {};
  const id = (flag: string) => Number(execFileSync('id', [flag, 'postgres']).toString());
  return { uid: id('-u'), gid: id('-g') };
}

export class TestPostgres {
  readonly #folder = mkdtempSync(join(tmpdir(), 'preface-postgres-'));
  readonly #as = owner();
  #child: ChildProcess | null = null;
  #port = 0;
  #made = 0;

  /** Runs until the test ends. */
  static async start(t: Pick<Test, 'teardown'>): Promise<TestPostgres> {
    const server = new TestPostgres();
    t.teardown(() => server.#end());
    server.#make();
    server.#port = await freePort();
    await server.start();
    return server;
  }

  #make(): void {
    const { uid, gid } = this.#as as { uid?: number; gid?: number };
    if (uid !== undefined && gid !== undefined) chownSync(this.#folder, uid, gid);
    const password = join(this.#folder, 'password');
    writeFileSync(password, postgresPassword, { mode: 0o644 });
    const data = join(this.#folder, 'data');
    const options = ['-U', 'preface', '--pwfile', password, '-A', 'scram-sha-256'];
    const quick = ['--no-sync', '--encoding=UTF8', '--locale=C'];
    execFileSync(join(bin ?? '', 'initdb'), ['-D', data, ...options, ...quick], {
      ...this.#as,
      cwd: this.#folder,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
  }

  /** A copy of a file that the server alone can read, as it wants its keys to be. @returns its path. */
  own(path: string): string {
    const copy = join(this.#folder, basename(path));
    copyFileSync(path, copy);
    const { uid, gid } = this.#as as { uid?: number; gid?: number };
    if (uid !== undefined && gid !== undefined) chownSync(copy, uid, gid);
    chmodSync(copy, 0o600);
    return copy;
  }

  async restart(more: Readonly<Record<string, string>>): Promise<void> {
    await this.stop();
    await this.start(more);
  }

  /** @param more settings of the server. */
  async start(more: Readonly<Record<string, string>> = {}): Promise<void> {
    const settings = {
      ...more,
      port: this.#port,
      listen_addresses: '127.0.0.1',
      unix_socket_directories: this.#folder,
      fsync: 'off',
    };
    const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
    this.#child = spawn(join(bin ?? '', 'postgres'), ['-D', join(this.#folder, 'data'), ...flags], {
      ...this.#as,
      cwd: this.#folder,
      stdio: 'ignore',
    });
    await until(() => this.#answers(), START_MS_MAX, 'the start of PostgreSQL');
  }

  /** Its clients lose their connections at once. */
  async stop(): Promise<void> {
    const child = this.#child;
    this.#child = null;
    if (child === null || child.exitCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGINT');
    await ended;
  }

  /** A database of its own, empty. @returns its address with the password in it. */
  async database(): Promise<string> {
    this.#made += 1;
    const name = `test_${this.#made}`;
    await this.ask(`CREATE DATABASE ${name}`);
    return this.#url(name);
  }

  /** As an operator would ask it. */
  async ask<Row extends object>(text: string, url = this.#url('postgres')): Promise<Row[]> {
    const client = new pg.Client({ connectionString: url });
    client.on('error', () => {});
    await client.connect();
    try {
      return (await client.query<Row>(text)).rows;
    } finally {
      await client.end();
    }
  }

  #url(database: string): string {
    return `postgres://preface:${postgresPassword}@127.0.0.1:${this.#port}/${database}`;
  }

  async #answers(): Promise<boolean> {
    if (this.#child?.exitCode !== null) throw new Error('PostgreSQL ended at its start');
    return await this.ask('SELECT 1').then(
      () => true,
      () => false,
    );
  }

  async #end(): Promise<void> {
    await this.stop();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** Of a database without records. */
export async function intoShards(url: string, folder: string, shards: number): Promise<void> {
  const connection = new PostgresConnection(url);
  const store = await openPostgres({ url, folder, clock: systemClock });
  try {
    await store.lead();
    await makeParts(connection, { storeId: store.storeId, shards });
    await store.part(shards);
  } finally {
    await store.close();
    await connection.close();
  }
}
