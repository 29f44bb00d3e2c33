/**
 * Owns the part of the engine contract that speaks of kept prefixes, run over every engine by the file that opens it.
 * It must use nothing but the contract.
 */

import type { Engine, GenerateTask, PrefillTask } from '../contract.js';
import { answer, type EngineSubject } from './engine.js';
import type { SuiteTest } from './suite-test.js';

/** @param open each time a new engine, over what the last one left in its folder. */
export function snapshotSuite(t: SuiteTest, open: () => Promise<EngineSubject>): void {
  let subject: EngineSubject;
  let engine: Engine;
  const signal = new AbortController().signal;
  const prefixOf = ({ prompt }: EngineSubject) => prompt.slice(0, prompt.length - 8);
  /** Owners of their own, so that nothing but the snapshot can be reused. */
  const prefill = (owner: string): PrefillTask => ({
    model: subject.model,
    owner,
    prompt: prefixOf(subject),
    snapshot: owner,
  });
  const task = (owner: string, over: Partial<GenerateTask> = {}): GenerateTask => ({
    model: subject.model,
    owner,
    prompt: subject.prompt,
    snapshot: { name: owner, tokens: prefixOf(subject).length },
    maxTokens: 6,
    choices: 1,
    endIds: subject.endIds,
    sampling: { temperature: 0, topP: 1, presencePenalty: 0, frequencyPenalty: 0, seed: null },
    constraint: null,
    logprobs: null,
    ...over,
  });
  const restart = async () => {
    await engine.close();
    subject = await open();
    engine = subject.engine;
  };
  t.before(async () => {
    subject = await open();
    engine = subject.engine;
  });
  t.teardown(() => engine.close());

  t.test('a prefilled prefix is reused, with the answer of a cold run', async (t) => {
    const tokens = prefixOf(subject).length;
    const cold = await answer(t, engine, task('cold1', { snapshot: null }));
    const info = await engine.prefill(prefill('warm1'), signal);
    t.same([info.tokens, info.evaluatedTokens], [tokens, tokens]);
    t.ok(info.bytes > 0);
    const warm = await answer(t, engine, task('warm1'));
    t.same(warm.started, [tokens]);
    t.same(warm.ids, cold.ids);
    t.same(await engine.prefill(prefill('warm1'), signal), { ...info, evaluatedTokens: 0 });
  });

  t.test('a kept prefix outlives the engine', async (t) => {
    const tokens = prefixOf(subject).length;
    const { bytes } = await engine.prefill(prefill('kept1'), signal);
    const before = await answer(t, engine, task('kept1'));
    await restart();
    const info = await engine.prefill(prefill('kept1'), signal);
    t.same(info, { tokens, bytes, evaluatedTokens: 0 });
    const after = await answer(t, engine, task('kept1'));
    t.same(after.started, [tokens]);
    t.same(after.ids, before.ids);
  });

  t.test('a prefix that is not there is made on the way', async (t) => {
    const first = await answer(t, engine, task('way1'));
    t.same(first.started, [0]);
    await restart();
    const second = await answer(t, engine, task('way1'));
    t.same(second.started, [prefixOf(subject).length]);
    t.same(second.ids, first.ids);
  });

  t.test('what is forgotten is not reused any more, and can be made again', async (t) => {
    await engine.prefill(prefill('gone1'), signal);
    await engine.forget('gone1');
    const { started } = await answer(t, engine, task('gone1'));
    t.same(started, [0]);
    await engine.forget('gone1');
    const info = await engine.prefill(prefill('gone1'), signal);
    t.ok(info.evaluatedTokens > 0);
    await engine.forget('never1');
  });

  t.test('a prompt that is no longer than its prefix is answered', async (t) => {
    const prompt = prefixOf(subject);
    await engine.prefill(prefill('same1'), signal);
    const { started, reasons } = await answer(t, engine, task('same1', { prompt, maxTokens: 1 }));
    t.ok((started[0] ?? 0) > 0 && (started[0] ?? 0) < prompt.length);
    t.equal(reasons.length, 1);
  });

  t.test('a prefill that is aborted rejects and keeps nothing', async (t) => {
    const abort = new AbortController();
    abort.abort();
    await t.rejects(engine.prefill(prefill('abort1'), abort.signal));
    await restart();
    const { started } = await answer(t, engine, task('abort1'));
    t.same(started, [0]);
  });
}
