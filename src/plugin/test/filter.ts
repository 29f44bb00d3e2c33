/**
 * Owns what every filter plugin has to keep, as one suite that each of them calls.
 * It must never know how one of them works.
 */

import type { Filter, FilterOptions, FilterPlugin, FilterStream, FilterText } from '../contract.js';
import { type Random, seededRandom, testSeed } from './random-text.js';
import type { SuiteTest } from './suite-test.js';

export interface FilterTrial {
  readonly name: string;
  readonly plugin: FilterPlugin;
  readonly options: FilterOptions;
  /** Each alone is rejected, and in the middle of an allowed text with blanks around it too. */
  readonly rejected: readonly string[];
  readonly allowed: readonly string[];
}

const ROUNDS = 300;
const roles = ['system', 'user', 'assistant', 'tool'] as const;

export function filterSuite(t: SuiteTest, trial: FilterTrial): void {
  t.test(`${trial.name} keeps the contract of a filter`, async (t) => {
    const filter = await trial.plugin.open(trial.options);
    t.teardown(() => filter.close());
    describeCheck(t, filter, trial);
    describeStream(t, filter, trial);
  });
}

function describeCheck(t: SuiteTest, filter: Filter, { rejected, allowed }: FilterTrial): void {
  const { signal } = new AbortController();
  const check = async (texts: readonly string[], role: FilterText['role'] = 'user') =>
    await filter.check(
      texts.map((text) => ({ role, text })),
      signal,
    );

  t.test('an input is rejected when any of its texts is, in any role', async (t) => {
    t.same(await check(allowed), { type: 'allowed' });
    t.same(await check([]), { type: 'allowed' });
    t.same(await check(['', ...allowed]), { type: 'allowed' });
    for (const text of rejected) {
      for (const role of roles) {
        t.match(await check([...allowed, `so ${text} it`], role), { type: 'rejected' }, text);
      }
      t.match(await check([text]), { type: 'rejected', rule: /\S/ });
    }
  });

  t.test('what is rejected is named without a word of the text', async (t) => {
    for (const text of rejected) {
      const verdict = await check([`secret ${text}`]);
      if (verdict.type === 'allowed') t.fail(text);
      else t.notMatch(verdict.rule, /secret/);
    }
  });
}

function describeStream(t: SuiteTest, filter: Filter, { rejected, allowed }: FilterTrial): void {
  t.test('an allowed text is shown to its end, however it is cut', async (t) => {
    const seed = testSeed();
    const random = seededRandom(seed);
    for (let round = 0; round < ROUNDS; round += 1) {
      const text = allowed[random(allowed.length)] ?? '';
      const outcome = await follow(filter.open(''), cut(random, text));
      if (outcome.rejected || outcome.wrong !== null) {
        t.fail(`seed ${seed}: ${JSON.stringify(text)} ${outcome.wrong}`);
      }
    }
    t.pass(`seed ${seed}`);
  });

  t.test('nothing of a rejected text is ever shown, however it is cut', async (t) => {
    const seed = testSeed();
    const random = seededRandom(seed);
    for (let round = 0; round < ROUNDS; round += 1) {
      const bad = rejected[random(rejected.length)] ?? '';
      const good = `${allowed[random(allowed.length)] ?? ''} `;
      const text = `${good}${bad} ${good}`;
      const outcome = await follow(filter.open(''), cut(random, text));
      if (!outcome.rejected || outcome.wrong !== null || outcome.shown > good.length) {
        t.fail(`seed ${seed}: ${JSON.stringify(text)} shown to ${outcome.shown} ${outcome.wrong}`);
      }
    }
    t.pass(`seed ${seed}`);
  });

  t.test('what the reader has seen before is part of the text, but not counted', async (t) => {
    for (const text of rejected) {
      const middle = Math.max(1, text.length >> 1);
      const stream = filter.open(`so ${text.slice(0, middle)}`);
      const outcome = await follow(stream, [text.slice(middle), ' it']);
      t.ok(outcome.rejected, text);
      t.equal(outcome.shown, 0);
    }
    const [text = ''] = allowed;
    t.match(await follow(filter.open(text), [` ${text}`]), { rejected: false, wrong: null });
  });

  t.test('streams know nothing of each other', async (t) => {
    for (const text of rejected) {
      const middle = Math.max(1, text.length >> 1);
      const [first, second] = [filter.open(''), filter.open('')];
      await first.push(`so ${text.slice(0, middle)}`);
      await second.push(text.slice(middle));
      t.same(await second.end(), { type: 'allowed' }, `the second half of ${text}`);
      const step = await first.push(text.slice(middle));
      const verdict = step.type === 'rejected' ? step : await first.end();
      t.equal(verdict.type, 'rejected', text);
    }
  });
}

interface Outcome {
  readonly rejected: boolean;
  readonly shown: number;
  readonly wrong: string | null;
}

async function follow(stream: FilterStream, parts: readonly string[]): Promise<Outcome> {
  let length = 0;
  let shown = 0;
  for (const part of parts) {
    const step = await stream.push(part);
    length += part.length;
    if (step.type === 'rejected') return { rejected: true, shown, wrong: null };
    if (step.length < shown) return { rejected: false, shown, wrong: 'takes back what was shown' };
    if (step.length > length) return { rejected: false, shown, wrong: 'shows what is not there' };
    shown = step.length;
  }
  return { rejected: (await stream.end()).type === 'rejected', shown, wrong: null };
}

/** In up to eight parts, anywhere: also inside a character. */
export function cut(random: Random, text: string): string[] {
  const places = Array.from({ length: random(8) }, () => random(text.length + 1));
  const ends = [...places, text.length].sort((a, b) => a - b);
  return ends.map((end, at) => text.slice(at === 0 ? 0 : ends[at - 1], end));
}
