/**
 * Where answers are exact no token of a prompt is evaluated alone, and the comparison of exactness knows that.
 * It must never open a real context: the places of the cuts are what counts.
 */
import { join } from 'node:path';
import t from 'tap';
import { certificateOf } from '../../../plugins/engines/llama/certificate.js';
import type { BatchItem, Context } from '../../../plugins/engines/llama/context.js';
import { Runtime } from '../../../plugins/engines/llama/native.js';
import { Prompt } from '../../../plugins/engines/llama/prompt.js';
import { temporaryFolder } from '../../support/service.js';
import { writeTinyModel } from '../../support/tiny-models.js';

const EXACT = { held: true, grain: 1, decodeRows: 1, aheadRows: 1 };

function prompt(exact: boolean, evaluated: number): Prompt {
  const made = new Prompt({
    owner: 'alice',
    account: 'alice',
    ids: new Uint32Array(140),
    snapshot: { name: 'c', tokens: 100 },
    exactness: exact ? EXACT : null,
    answered: true,
    scored: false,
    choices: 1,
    prepare: null,
  });
  made.evaluated = evaluated;
  return made;
}

t.test('no checkpoint stops a prompt behind one token alone', async (t) => {
  t.equal(prompt(true, 98).stop(true), 100, 'two tokens before the kept prefix');
  t.ok(prompt(true, 99).stop(true) > 100, 'one token before it');
  t.equal(prompt(false, 99).stop(true), 100, 'where the last bits do not count');
});

/** One row has other bits than several, as on x86, and whether a token was evaluated alone is seen in all that follow. */
class OddContext {
  readonly #kept = new Map<number, string[]>();
  #rows: Float32Array[] = [];

  clear(sequence: number): void {
    this.#kept.delete(sequence);
  }

  async evaluate(items: readonly BatchItem[]): Promise<number[]> {
    this.#rows = [];
    return items.map(({ sequence, ids, logits }) => {
      const kept = this.#kept.get(sequence) ?? [];
      this.#kept.set(sequence, kept);
      for (const id of Array.from(ids)) {
        kept.push(`${id}${ids.length === 1 ? ' alone' : ''}`);
        if (logits === 'all') this.#rows.push(bitsOf(kept));
      }
      if (logits === true) this.#rows.push(bitsOf(kept));
      return this.#rows.length - 1;
    });
  }

  logits(row: number): Float32Array {
    return this.#rows[row] ?? new Float32Array();
  }

  async close(): Promise<void> {}
}

function bitsOf(kept: readonly string[]): Float32Array {
  let sum = 7;
  for (const char of kept.join()) sum = (sum * 31 + char.charCodeAt(0)) % 1_000_003;
  return Float32Array.of(sum);
}

t.test('a prompt may be cut anywhere but before its last token', async (t) => {
  const folder = temporaryFolder(t);
  const path = join(folder, 'tiny.gguf');
  await writeTinyModel(path, 'llama');
  const weights = await (await Runtime.open()).load(path);
  t.teardown(() => weights.close());
  const context = async () => new OddContext() as unknown as Context;
  const proving = { build: 'b', stateDir: join(folder, 'state'), threads: 2 };
  const { exactness } = await certificateOf({ facts: weights.facts, context }, proving);
  t.match(exactness, { held: true, grain: 1, aheadRows: 1 });
});
