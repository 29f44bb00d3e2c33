/**
 * Owns what every tokenizer plugin has to keep, as one suite that each of them calls.
 * It must never know how one of them works.
 */

import { Detokenizer, tokenBytes } from '../../rules/detokenizer.js';
import type { Tokenizer, TokenizerOptions, TokenizerPlugin, Vocabulary } from '../contract.js';
import { hostileTexts, prose } from './hostile-text.js';
import { randomText, seededRandom, testSeed } from './random-text.js';
import type { SuiteTest } from './suite-test.js';

export interface TokenizerTrial {
  readonly name: string;
  readonly plugin: TokenizerPlugin;
  readonly options: TokenizerOptions;
  /** Bytes the vocabulary has no token for, which it drops. */
  readonly lostBytes?: (text: string) => boolean;
}

/** Generous: the promise is a bound on the work, and a machine under load must not break a test. */
const RATIO_MAX = 8;
const TIMEOUT_MS = 300_000;
const HOSTILE_LENGTH = 200_000;
const ENDLESS_LENGTH = 1_000_000;

export function tokenizerSuite(t: SuiteTest, trial: TokenizerTrial): void {
  t.setTimeout(TIMEOUT_MS);
  t.test(`${trial.name} keeps the contract of a tokenizer`, async (t) => {
    const tokenizer = await trial.plugin.open(trial.options);
    t.teardown(() => {
      tokenizer.close();
    });
    describeInfo(t, tokenizer);
    describeEncoding(t, tokenizer, trial);
    describeHostileText(t, tokenizer);
    t.test('another one of the same vocabulary has the same fingerprint', async (t) => {
      const other = await trial.plugin.open(trial.options);
      t.equal(other.info().fingerprint, tokenizer.info().fingerprint);
      other.close();
    });
  });
}

function describeInfo(t: SuiteTest, tokenizer: Tokenizer): void {
  t.test('the vocabulary, the special tokens and the end ids agree', async (t) => {
    const { vocabulary, special, endIds, template, bosToken, eosToken } = tokenizer.info();
    const count = vocabulary.offsets.length - 1;
    for (const [text, id] of Object.entries(special)) {
      if (id >= count) t.fail(`${text} has the id ${id}, the vocabulary ends at ${count}`);
      if (tokenBytes(vocabulary, id).length > 0) t.fail(`${text} is special and has bytes`);
    }
    t.ok(endIds.length > 0);
    for (const id of endIds) t.ok(Object.values(special).includes(id), `end id ${id} is special`);
    for (const text of [bosToken, eosToken]) t.ok(Object.hasOwn(special, text), text);
    t.ok(template.includes('messages'));
    t.equal(vocabulary.offsets.at(-1), vocabulary.bytes.length);
  });
}

function describeEncoding(t: SuiteTest, tokenizer: Tokenizer, trial: TokenizerTrial): void {
  const { vocabulary, special } = tokenizer.info();
  t.test('ids go back to the very text, and none is special', async (t) => {
    const seed = testSeed();
    const random = seededRandom(seed);
    const specials = new Set(Object.values(special));
    for (let round = 0; round < 2000; round += 1) {
      const text = randomText(random, 12);
      const ids = [...tokenizer.encode(text)];
      if (ids.some((id) => specials.has(id))) t.fail(`special id in ${JSON.stringify(text)}`);
      const back = decoded(vocabulary, ids);
      if (back !== text && trial.lostBytes?.(text) !== true) t.equal(back, text, `seed ${seed}`);
    }
    t.pass(`seed ${seed}`);
  });

  t.test('the text of each special token is text', async (t) => {
    for (const [text, id] of Object.entries(special)) {
      const ids = [...tokenizer.encode(`a${text}b`)];
      if (ids.includes(id)) t.fail(`${text} became ${id}`);
      if (decoded(vocabulary, ids) !== `a${text}b`) t.fail(`${text} was changed`);
    }
  });

  t.test('nothing has no ids', async (t) => {
    t.equal(tokenizer.encode('').length, 0);
  });
}

function describeHostileText(t: SuiteTest, tokenizer: Tokenizer): void {
  t.test('no text costs more than a small multiple of prose', async (t) => {
    const plain = prose(HOSTILE_LENGTH);
    tokenizer.encode(plain);
    const base = encoded(tokenizer, plain).perByte;
    for (const [name, text] of Object.entries(hostileTexts(HOSTILE_LENGTH))) {
      const { ids, perByte } = encoded(tokenizer, text);
      t.ok(decoded(tokenizer.info().vocabulary, ids) === text, name);
      let ratio = perByte / base;
      // What the machine or a collection took is not in a second look.
      if (ratio > RATIO_MAX) ratio = encoded(tokenizer, text).perByte / base;
      t.ok(ratio <= RATIO_MAX, `${name}: ${ratio.toFixed(2)} times the work of prose`);
    }
    for (const letter of [' ', 'a']) {
      const text = letter.repeat(ENDLESS_LENGTH);
      const ratio = encoded(tokenizer, text).perByte / base;
      t.ok(ratio <= RATIO_MAX, `a million of '${letter}': ${ratio.toFixed(2)}`);
    }
  });
}

/** With the microseconds for each byte: of CPU, not of the clock, since others share the machine. */
function encoded(tokenizer: Tokenizer, text: string) {
  const before = process.cpuUsage();
  const ids = tokenizer.encode(text);
  const { user, system } = process.cpuUsage(before);
  return { ids, perByte: Math.max(1, user + system) / Buffer.byteLength(text) };
}

function decoded(vocabulary: Vocabulary, ids: Iterable<number>): string {
  const detokenizer = new Detokenizer(vocabulary);
  return detokenizer.push([...ids]) + detokenizer.end();
}
