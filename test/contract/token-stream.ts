/**
 * Owns the one suite of the token stream; a test file runs it over each transport.
 * It must never use more than the client's side, so that every transport meets the same contract.
 */
import type { Test } from 'tap';
import type { ErrorValue } from '../../src/errors.js';
import { limits } from '../../src/limits/index.js';
import type { EngineEvent, EngineOptions, GenerateTask } from '../../src/plugin/contract.js';
import type { TokenStream, TokenStreamHandlers } from '../../src/pool/token-stream.js';

export interface OpenedStreams {
  generate(task: GenerateTask, handlers: TokenStreamHandlers): TokenStream;
  close(): Promise<void>;
}

/** Options for an engine without weights; its model is that of `echoTask`. */
export const echoOptions: EngineOptions = {
  models: [{ id: 'm', weights: null, window: 131_072 }],
  exact: true,
  threads: null,
  slots: 4,
  memoryBytesMax: 1,
  snapshotBytesMax: 1,
  stateDir: '',
};

export function echoTask(text: string, over: Partial<GenerateTask> = {}): GenerateTask {
  const turn = `user\n${text}`;
  const prompt = [256, ...Buffer.from(turn), 257, 10, 256, ...Buffer.from('assistant\n')];
  return {
    model: 'm',
    owner: 'alice',
    prompt: Uint32Array.from(prompt),
    snapshot: null,
    maxTokens: 1000,
    choices: 1,
    endIds: [257],
    sampling: { temperature: 0, topP: 1, presencePenalty: 0, frequencyPenalty: 0, seed: null },
    constraint: null,
    logprobs: null,
    ...over,
  };
}

/** A reader that records all events and can be awaited. */
export class Recorder implements TokenStreamHandlers {
  readonly events: EngineEvent[] = [];
  ends = 0;
  error: ErrorValue | null = null;
  #waiting: { test: () => boolean; resolve: () => void }[] = [];

  onEvents(events: readonly EngineEvent[]): void {
    this.events.push(...events);
    this.#look();
  }

  onEnd(error: ErrorValue | null): void {
    this.ends += 1;
    this.error = error;
    this.#look();
  }

  until(test: () => boolean): Promise<void> {
    if (test()) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push({ test, resolve }));
  }

  ended(): Promise<void> {
    return this.until(() => this.ends > 0);
  }

  get pieces(): number {
    return this.events.filter((event) => event.type === 'piece').length;
  }

  text(choice = 0): string {
    const ids = this.events.flatMap((event) =>
      event.type === 'piece' && event.choice === choice ? event.ids : [],
    );
    return Buffer.from(ids).toString();
  }

  #look(): void {
    const done = this.#waiting.filter(({ test }) => test());
    this.#waiting = this.#waiting.filter((waiting) => !done.includes(waiting));
    for (const { resolve } of done) resolve();
  }
}

export async function tokenStreamSuite(t: Test, open: () => Promise<OpenedStreams>): Promise<void> {
  const streams = await open();
  t.teardown(() => streams.close());
  const run = (task: GenerateTask) => {
    const reader = new Recorder();
    return { reader, stream: streams.generate(task, reader) };
  };

  await t.test('a stream starts, tells its pieces and ends once', async (t) => {
    const { reader } = run(echoTask('one two three'));
    await reader.ended();
    t.same(reader.events[0], { type: 'started', reusedTokens: 0 });
    t.equal(reader.text(), 'one two three');
    t.same(reader.events.at(-1), { type: 'finished', choice: 0, reason: 'stop' });
    t.equal(reader.ends, 1);
    t.equal(reader.error, null);
  });

  await t.test(
    'a stream without credit stops, another goes on, and a grant wakes it',
    async (t) => {
      const words = 'word '.repeat(3 * limits.creditPieces);
      const slow = run(echoTask(words, { maxTokens: 100_000 }));
      await slow.reader.until(() => slow.reader.pieces === limits.creditPieces);
      const other = run(echoTask('quick'));
      await other.reader.ended();
      t.equal(slow.reader.pieces, limits.creditPieces, 'not one piece more than granted');
      slow.stream.grant(10 * limits.creditPieces);
      await slow.reader.ended();
      t.equal(slow.reader.text(), words);
    },
  );

  await t.test('a cancelled stream ends, also while it waits for credit', async (t) => {
    const silent = run(echoTask('/wait'));
    silent.stream.cancel(null);
    await silent.reader.ended();
    t.equal(silent.reader.error, null);
    const endless = run(echoTask('/repeat on and on ', { maxTokens: 1_000_000 }));
    await endless.reader.until(() => endless.reader.pieces === limits.creditPieces);
    endless.stream.cancel(null);
    await endless.reader.ended();
    t.equal(endless.reader.pieces, limits.creditPieces);
  });

  await t.test('one cancelled choice leaves the others', async (t) => {
    const task = echoTask('/repeat ab ', { choices: 2, maxTokens: 600 });
    const { reader, stream } = run(task);
    stream.cancel(0);
    stream.grant(10_000);
    await reader.ended();
    t.equal(reader.text(1).length, 600);
    t.ok(reader.text(0).length < 600);
  });

  await t.test(
    'an engine that throws ends its stream with an error, after its pieces',
    async (t) => {
      const { reader } = run(echoTask('/fail said before'));
      await reader.ended();
      t.equal(reader.text(), 'said before');
      t.equal(reader.error?.row, 'server');
      t.match(reader.error?.values.error, /asked to fail/);
      t.equal(reader.ends, 1);
    },
  );

  await t.test('many streams at once keep apart', async (t) => {
    const runs = Array.from({ length: 100 }, (_, i) => run(echoTask(`stream number ${i}`)));
    await Promise.all(runs.map(({ reader }) => reader.ended()));
    t.same(
      runs.map(({ reader }) => reader.text()),
      runs.map((_, i) => `stream number ${i}`),
    );
  });

  await t.test('a prompt of the longest window crosses whole', async (t) => {
    const text = 'x'.repeat(130_000);
    const { reader } = run(echoTask(text, { maxTokens: 200_000 }));
    await reader.ended();
    t.equal(reader.text(), text);
  });

  await t.test('grant and cancel after the end do nothing', async (t) => {
    const { reader, stream } = run(echoTask('short'));
    await reader.ended();
    stream.grant(5);
    stream.cancel(null);
    const after = run(echoTask('after'));
    await after.reader.ended();
    t.equal(after.reader.text(), 'after');
    t.equal(reader.ends, 1);
  });
}
