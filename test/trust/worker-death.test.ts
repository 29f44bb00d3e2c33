/**
 * Whatever ends a worker, or keeps it for ever, costs the request that made it so, and those that ran beside it in the
 * same process a clear 5xx; all others go on, and another worker is there within about a second.
 */
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { systemClock } from '../../src/clock.js';
import { EncodeBatches } from '../../src/pool/encode-batches.js';
import { Host } from '../../src/pool/host.js';
import type { TokenizeResult, TokenizeTask } from '../../src/pool/messages.js';
import { Pool } from '../../src/pool/pool.js';
import { echoOptions, echoTask } from '../contract/token-stream.js';
import { answerTo, openWithSettings, post, refusal, said } from '../support/chat-client.js';
import { contentOf, upload } from '../support/file-client.js';
import type { TestService } from '../support/service.js';
import { until } from '../support/until.js';

const support = (name: string) => fileURLToPath(new URL(`../support/${name}.js`, import.meta.url));

t.setTimeout(0);

/** A loaded machine starts a process slowly; what it took is said. */
const BACK_MS_MAX = 60_000;
/** A process that only gets no CPU for a while is not one that stands still. */
const [PING_MS, PINGS_MAX] = [500, 20];
/** Small, so that it is full soon. */
const HEAP_MIB = 64;

process.env.NODE_OPTIONS = `--max-old-space-size=${HEAP_MIB}`;
t.teardown(() => delete process.env.NODE_OPTIONS);

const service = await openWithSettings(
  t,
  {
    defaults: {
      engine: support('engine-hostile'),
      tokenizer: support('tokenizer-hostile'),
      weights: null,
    },
  },
  { PREFACE_EXTRACTORS: support('extractor-hostile'), PREFACE_EXTRACT_PROCESSES: '2' },
);

/** Milliseconds until a chat is answered again. */
async function back(t: Test, service: TestService, name: string): Promise<void> {
  const beganMs = performance.now();
  const answers = async (): Promise<boolean> => {
    const response = await post(service, said('again'));
    if (response.status === 200) return (await response.text()) !== '';
    const { status } = await refusal(t, response);
    t.ok(status === 500 || status === 503, `${name}: ${status} while it starts`);
    return false;
  };
  await until(answers, BACK_MS_MAX, `${name}: it is back`);
  t.comment(`${name}: answers again after ${Math.round(performance.now() - beganMs)} ms`);
}

for (const how of ['abort', 'kill', 'exit', 'heap']) {
  t.test(`an inference process that ends by ${how}`, async (t) => {
    const found = await refusal(t, await post(service, said(`/infer-${how}`)));
    t.match(found, { status: 500, type: 'server_error' }, how);
    // What needs no engine is answered at once.
    t.equal((await service.call('GET', '/models')).status, 200);
    await back(t, service, `inference, ${how}`);
  });
}

t.test('an engine that throws costs its own stream and no process', async (t) => {
  const [thrown, other] = await Promise.all([
    post(service, said('/infer-throw')),
    answerTo(service, said('beside it')),
  ]);
  t.match(await refusal(t, thrown), { status: 500, type: 'server_error' });
  t.equal(other, 'beside it');
});

t.test('an inference thread that never lets go is ended', async (t) => {
  const lines: string[] = [];
  const host = new Host({
    start: { engine: { module: support('engine-hostile'), options: echoOptions } },
    streamsMax: 16,
    clock: systemClock,
    log: (line) => lines.push(line),
    pingMs: PING_MS,
    pingsMax: PINGS_MAX,
  });
  t.teardown(() => host.close());
  await host.ready;
  const { pid } = host;
  const run = (text: string) =>
    new Promise<string>((resolve) => {
      const task = echoTask(text);
      const handlers = {
        onEvents() {},
        onEnd: (error: { row: string } | null) => resolve(error?.row ?? 'ended'),
      };
      host.generate(task, handlers);
    });
  t.same(await Promise.all([run('/infer-loop'), run('beside it')]), ['server', 'server']);
  t.match(lines.join('\n'), /no sign of life for 10 s/);
  const beganMs = performance.now();
  await until(async () => (await run('again')) === 'ended', BACK_MS_MAX, 'it is back');
  t.not(host.pid, pid);
  t.comment(`inference, loop: answers again after ${Math.round(performance.now() - beganMs)} ms`);
});

for (const how of ['throw', 'exit']) {
  t.test(`a tokenization thread that ends by ${how}`, async (t) => {
    const [guilty, other] = await Promise.all([
      post(service, said(`/tokenize-${how} 1`)),
      answerTo(service, said(`beside ${how}`)),
    ]);
    t.match(await refusal(t, guilty), { status: 500, type: 'server_error' }, how);
    t.equal(other, `beside ${how}`, 'who was in the same thread is tried again');
    await back(t, service, `tokenization, ${how}`);
  });
}

t.test('workers that ended stand in the log', async (t) => {
  for (const kind of ['inference', 'tokenize'])
    t.ok(
      service.log.some((line) => line.startsWith(`${kind} worker ended: `)),
      kind,
    );
});

for (const how of ['loop', 'heap']) {
  t.test(
    `a tokenization thread with an endless ${how} is ended, and only its text fails`,
    async (t) => {
      const ended: string[] = [];
      const pool = new Pool<TokenizeTask, TokenizeResult>({
        worker: new URL('../../workers/tokenize.js', import.meta.url),
        threads: 1,
        tasksPerThread: 8,
        queueMax: 100,
        sleepsBetweenTasks: true,
        stuckMsMax: 2_000,
        heapBytesMax: HEAP_MIB * 2 ** 20,
        onThreadError: (error) => ended.push(error.message),
      });
      t.teardown(() => pool.close());
      const batches = new EncodeBatches({ run: (task) => pool.run(task) });
      const tokenizer = { module: support('tokenizer-hostile'), path: null };
      const guilty = batches.encode('u', tokenizer, [`/tokenize-${how}`]);
      const others = ['a', 'b', 'c'].map((text) => batches.encode('u', tokenizer, [text]));
      await t.rejects(guilty, /a worker thread ended/);
      t.same(
        (await Promise.all(others)).map(({ lengths }) => lengths[0]),
        [1, 1, 1],
      );
      t.ok(ended.length >= 2, 'with the others, and alone');
    },
  );
}

// Memory and time of a reader have their bounds tested where these can be small: with the pool.
for (const how of ['abort', 'kill', 'exit', 'junk']) {
  t.test(`a reader of documents that ends by ${how}`, async (t) => {
    const [bad, good] = await Promise.all([upload(service, how), upload(service, `fine ${how}`)]);
    const response = await service.call('GET', `/files/${bad.id}/content`);
    const { status, message } = await refusal(t, response);
    t.equal(status, 500);
    t.match(message, /^Failed to extract file: /);
    t.equal((await contentOf(service, good.id)).content, `fine ${how}`);
    const beganMs = performance.now();
    const { id } = await upload(service, `again ${how}`);
    await contentOf(service, id);
    t.comment(`reader, ${how}: reads again after ${Math.round(performance.now() - beganMs)} ms`);
  });
}
