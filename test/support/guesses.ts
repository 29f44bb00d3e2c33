/**
 * Owns tasks that are asked with and without guessed tokens, and what tells two of their answers apart.
 * It must never take two answers for equal that differ in a bit of a log-probability.
 */
import type { Test } from 'tap';
import { StepCosts } from '../../plugins/engines/llama/drafts.js';
import type { Engine, GenerateTask } from '../../src/plugin/contract.js';
import { control } from '../../src/plugin/test/engine.js';
import type { Random } from '../../src/plugin/test/random-text.js';
import { TINY_TOKENS } from './tiny-models.js';

/** A quotation of its prompt would be noise here: few tokens are allowed, so that they repeat by chance. */
export function tasksOf(random: Random): Partial<GenerateTask> {
  const few = Array.from(
    { length: 2 + random(4) },
    () => [1 + random(TINY_TOKENS - 1), 100] as const,
  );
  const phrase = Array.from({ length: 5 + random(20) }, () => 1 + random(TINY_TOKENS - 1));
  const prompt = Uint32Array.from(
    { length: 20 + random(300) },
    (_, i) => phrase[i % phrase.length] ?? 1,
  );
  const logitBias = random(3) > 0 ? few : [];
  const penalty = random(4) === 0 ? 0.5 : 0;
  const sampling = {
    temperature: random(3) === 0 ? 0 : 1.5,
    topP: 1,
    presencePenalty: penalty,
    frequencyPenalty: penalty,
    seed: random(1_000),
    logitBias,
    minTokens: random(20),
  };
  const endIds = random(2) === 0 ? [few[0]?.[0] ?? 1] : [];
  return { prompt, sampling, endIds, maxTokens: 1 + random(90), choices: 1 + random(2) };
}

export interface Answered {
  readonly choices: readonly string[];
  readonly tried: number;
  readonly taken: number;
}

export function taskOf(over: Partial<GenerateTask>): GenerateTask {
  const sampling = { temperature: 0, topP: 1, presencePenalty: 0, frequencyPenalty: 0, seed: 1 };
  const plain = { model: 'm', owner: 'alice', prompt: new Uint32Array(), snapshot: null };
  const rest = { maxTokens: 6, choices: 1, endIds: [], sampling, constraint: null, logprobs: 2 };
  return { ...plain, ...rest, ...over };
}

export async function ask(engine: Engine, over: Partial<GenerateTask>): Promise<Answered> {
  const task = taskOf(over);
  const choices = Array.from({ length: task.choices }, () => '');
  let [tried, taken] = [0, 0];
  for await (const event of engine.generate(task, control())) {
    if (event.type === 'finished') choices[event.choice] += ` ${event.reason}`;
    if (event.type !== 'piece') continue;
    tried += event.drafts?.tried ?? 0;
    taken += event.drafts?.taken ?? 0;
    for (const [i, id] of event.ids.entries())
      choices[event.choice] += ` ${id}:${JSON.stringify(event.logprobs?.[i])}`;
  }
  return { choices, tried, taken };
}

export function differenceOf(found: Answered, right: Answered): string | null {
  for (const [i, text] of right.choices.entries()) {
    const [ours, theirs] = [found.choices[i]?.split(' ') ?? [], text.split(' ')];
    const at = Math.max(theirs.length, ours.length) - 1;
    const first = Array.from({ length: at }, (_, n) => n + 1).find((n) => ours[n] !== theirs[n]);
    if (first !== undefined)
      return `choice ${i}, token ${first} of ${at}: ${ours[first]} in place of ${theirs[first]}`;
  }
  return null;
}

/** As on a machine where rows cost nothing. */
export function freeRows(t: Test): void {
  const { of } = StepCosts.prototype;
  StepCosts.prototype.of = () => 1;
  t.teardown(() => {
    StepCosts.prototype.of = of;
  });
}
