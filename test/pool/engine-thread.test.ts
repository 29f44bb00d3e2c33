/**
 * Owns the proof that an engine without native code runs in a thread as it does in a process: what ends the thread costs
 * its streams alone, and another thread is there.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { systemClock } from '../../src/clock.js';
import { loadPlugin } from '../../src/plugin/load.js';
import { Host, type HostOptions } from '../../src/pool/host.js';
import {
  builtInPath,
  builtInPlugins,
  nativeFreeEngines,
} from '../../src/settings/built-in-plugins.js';
import { echoOptions, echoTask, Recorder } from '../contract/token-stream.js';
import { THREAD_SAW } from '../support/engine-threaded.js';
import { until } from '../support/until.js';

t.setTimeout(180_000);

const support = (name: string) => fileURLToPath(new URL(`../support/${name}.js`, import.meta.url));
const BACK_MS_MAX = 60_000;

function open(t: Test, more: Partial<HostOptions> = {}, engine = 'engine-threaded') {
  const log: string[] = [];
  const ended: string[] = [];
  const options = { ...echoOptions, stateDir: t.testdir() };
  const host = new Host({
    start: { engine: { module: support(engine), options } },
    place: 'thread',
    streamsMax: 16,
    clock: systemClock,
    log: (line) => log.push(line),
    onEnded: (how) => ended.push(how),
    ...more,
  });
  t.teardown(() => host.close());
  return { host, log, ended, stateDir: options.stateDir };
}

async function answer(host: Host, text: string): Promise<string> {
  const reader = new Recorder();
  host.generate(echoTask(text), reader);
  await reader.ended();
  return reader.error === null ? reader.text() : reader.error.row;
}

const endings = [
  { text: '/infer-exit', how: /^code 0$/ },
  { text: '/wait /uncaught', how: /^nobody catches this$/ },
  { text: '/wait /uncaught-null', how: /^null$/ },
];

t.test('what ends the thread costs its streams, and another one answers', async (t) => {
  const { host, log, ended } = open(t);
  await host.ready;
  for (const { text, how } of endings) {
    const beside = new Recorder();
    host.generate(echoTask('/wait'), beside);
    await beside.until(() => beside.events.length > 0);
    t.equal(await answer(host, text), 'server', text);
    await beside.ended();
    t.equal(beside.error?.row, 'server', 'what ran beside it is lost as well');
    const back = async () => (await answer(host, 'again')) === 'again';
    t.ok(await until(back, BACK_MS_MAX), `another answers after ${text}`);
    t.match(ended.at(-1), how);
  }
  t.equal(ended.length, endings.length, 'each end is told once');
  t.match(log.join('\n'), /^inference thread ended \(code 0\), next start in 100 ms$/m);
});

t.test('a thread that needs more than its heap is ended alone', async (t) => {
  const { host, ended } = open(t, { threadHeapBytesMax: 64 * 2 ** 20 });
  await host.ready;
  t.equal(await answer(host, '/infer-heap'), 'server');
  t.match(await until(() => ended.at(-1), BACK_MS_MAX), /memory limit/);
  t.ok(await until(async () => (await answer(host, 'again')) === 'again', BACK_MS_MAX));
});

t.test('a thread that never lets go is ended, and another one answers', async (t) => {
  const { host, log } = open(t, { pingMs: 200, pingsMax: 10 });
  await host.ready;
  t.same(await Promise.all([answer(host, '/infer-loop'), answer(host, 'beside it')]), [
    'server',
    'server',
  ]);
  t.match(log.join('\n'), /^inference thread: no sign of life for 2 s, it is ended$/m);
  t.ok(await until(async () => (await answer(host, 'again')) === 'again', BACK_MS_MAX));
});

t.test('a thread has the variables of an engine, and no key of the service', async (t) => {
  for (const name of ['PREFACE_API_KEYS', 'AWS_SECRET', 'OTHER_TOKEN'])
    process.env[name] = 'sk-secret';
  t.teardown(() => {
    for (const name of ['PREFACE_API_KEYS', 'AWS_SECRET', 'OTHER_TOKEN']) delete process.env[name];
  });
  const { host, stateDir } = open(t, { env: { OF_THE_ENGINE: 'yes' } });
  await host.ready;
  const saw = readFileSync(join(stateDir, THREAD_SAW), 'utf8');
  t.notMatch(saw, /sk-secret/);
  t.match(JSON.parse(saw), { OF_THE_ENGINE: 'yes', PATH: process.env.PATH });
});

t.test('where an engine runs follows from what its plugin says', async (t) => {
  const place = async (asked: HostOptions['place'], engine: string) => {
    const { host, ended } = open(t, asked === undefined ? {} : { place: asked }, engine);
    await host.ready;
    t.equal(await answer(host, 'here'), 'here');
    t.same(ended, [], 'that it moved is no death');
    return host.place;
  };
  t.equal(await place('either', 'engine-threaded'), 'thread');
  t.equal(await place('either', 'engine-hostile'), 'process');
  t.equal(await place('process', 'engine-threaded'), 'process');
  const { host } = open(t, {}, 'engine-hostile');
  await t.rejects(host.ready, /does not say that it is free of native code/);
});

t.test('the built-in engines that are started as threads say so themselves', async (t) => {
  const engines = Object.keys(builtInPlugins).filter((name) => name.startsWith('engine-'));
  t.ok(engines.length >= 3);
  for (const name of engines) {
    const { nativeFree = false } = await loadPlugin(builtInPath(name) ?? '', 'engine');
    t.equal(nativeFree, nativeFreeEngines.has(name), name);
  }
});

t.test('closing ends it', async (t) => {
  const { host, ended } = open(t);
  await host.ready;
  const running = new Recorder();
  host.generate(echoTask('/wait'), running);
  await running.until(() => running.events.length > 0);
  await host.close();
  await running.ended();
  t.equal(running.error?.row, 'server');
  t.same(ended, [], 'an end that was asked for is none to tell of');
});
