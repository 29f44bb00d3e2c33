/**
 * Owns the start of the balancers that `bench/deploy` has configurations for, with a test's addresses.
 * It must never change anything in a configuration but the addresses of nodes and listeners.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';
import { temporaryFolder } from './service.js';

export interface Balanced {
  readonly port: number;
  /** Ports of the nodes, in order. */
  readonly nodes: readonly number[];
  /** Owners that are not on the node that the ring gives them, and the number of their node, from 1. */
  readonly pinned: readonly (readonly [owner: string, node: number])[];
}

export interface Balancer {
  readonly name: string;
  readonly missing: string | false;
  /** The answer that owners of a dead node get. */
  readonly downStatus: number;
  /** @returns its standard error output so far. */
  start(t: Test, balanced: Balanced): () => string;
}

export const balancers: readonly Balancer[] = [
  {
    name: 'HAProxy',
    missing: absent('haproxy'),
    downStatus: 503,
    start(t, { port, nodes, pinned }) {
      const folder = temporaryFolder(t);
      const [own, map] = [join(folder, 'haproxy.cfg'), join(folder, 'owners.map')];
      // The names of its inner sockets are global on the machine: they must not clash with another test run.
      writeFileSync(
        own,
        config('haproxy.cfg').replaceAll('abns@preface-', `abns@preface-${port}-`),
      );
      writeFileSync(map, pinned.map(([owner, node]) => `${owner} n${node}\n`).join(''));
      return run(t, 'haproxy', ['-db', '-f', own], {
        PREFACE_BIND: `127.0.0.1:${port}`,
        PREFACE_OWNERS: map,
        ...Object.fromEntries(nodes.map((node, at) => [`PREFACE_N${at + 1}`, `127.0.0.1:${node}`])),
      });
    },
  },
  {
    name: 'nginx',
    missing: absent('nginx'),
    downStatus: 502,
    start(t, { port, nodes, pinned }) {
      const folder = temporaryFolder(t);
      const moved = pinned.map(([owner, node]) => `${owner} preface_n${node};`).join(' ');
      const upstreams = [1, 3].map(
        (node) => `upstream preface_n${node} { server 10.0.0.${node}:8080; }`,
      );
      let text = config('nginx.conf')
        .replace('# alice preface_n2;', moved)
        .replace('listen 8080', `listen 127.0.0.1:${port}`);
      text += upstreams.join('\n');
      for (const [at, node] of nodes.entries()) {
        text = text.replaceAll(`10.0.0.${at + 1}:8080`, `127.0.0.1:${node}`);
      }
      const places = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
        .map((name) => `${name}_temp_path ${folder}/${name};`)
        .join(' ');
      const own = join(folder, 'nginx.conf');
      writeFileSync(
        own,
        `daemon off; pid ${folder}/pid; error_log stderr; events {}\nhttp { access_log off; ${places}\n${text}\n}\n`,
      );
      return run(t, 'nginx', ['-p', folder, '-c', own], {});
    },
  },
];

/** Before nodes that share records and files. @returns its standard error output so far. */
export function startClusterBalancer(
  t: Test,
  { port, nodes }: Pick<Balanced, 'port' | 'nodes'>,
): () => string {
  const path = fileURLToPath(new URL('../../../bench/deploy/haproxy-cluster.cfg', import.meta.url));
  return run(t, 'haproxy', ['-db', '-f', path], {
    PREFACE_BIND: `127.0.0.1:${port}`,
    ...Object.fromEntries(nodes.map((node, at) => [`PREFACE_N${at + 1}`, `127.0.0.1:${node}`])),
  });
}

function config(name: string): string {
  return readFileSync(
    fileURLToPath(new URL(`../../../bench/deploy/${name}`, import.meta.url)),
    'utf8',
  );
}

function absent(program: string): string | false {
  return spawnSync(program, ['-v']).status === 0 ? false : `${program} is not installed`;
}

function run(
  t: Test,
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): () => string {
  const child = spawn(program, args, {
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => {
    errors += chunk.toString();
  });
  t.teardown(async () => {
    // nginx's master takes its workers along on this one.
    child.kill('SIGTERM');
    if (child.exitCode === null && child.signalCode === null) await once(child, 'close');
  });
  return () => errors;
}
