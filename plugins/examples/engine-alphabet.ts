/**
 * Owns an example: the smallest engine that keeps the whole contract. It says the alphabet, choice by choice.
 * It must stay small enough to be read at once; `tokenizer-bytes` is the tokenizer for it, since an id is a byte here.
 */
import { access, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Engine, EngineOptions, EnginePlugin } from 'preface/plugin';

function alphabet({ models, slots, stateDir }: EngineOptions): Engine {
  // What a real engine would write here is its evaluated state. The name is safe as a file's: see the contract.
  const file = (snapshot: string) => join(stateDir, snapshot);
  const isKept = (snapshot: string) => access(file(snapshot)).then(yes, no);
  return {
    models: () =>
      models.map(({ id, window }) => {
        const can = { logprobs: false, vision: false };
        return { id, window, fingerprint: 'alphabet-1', slots, ...can };
      }),
    async *generate({ prompt, snapshot, choices, maxTokens }, control) {
      const reused = snapshot !== null && (await isKept(snapshot.name)) ? snapshot.tokens : 0;
      if (snapshot !== null) await writeFile(file(snapshot.name), '1');
      // Something of the prompt is always left to evaluate.
      yield { type: 'started', reusedTokens: Math.min(reused, prompt.length - 1) };
      for (let said = 0; said < maxTokens; said += 1) {
        for (let choice = 0; choice < choices; choice += 1) {
          if (control.aborted) return;
          if (control.cancelled(choice)) continue;
          yield { type: 'piece', choice, ids: [A + ((said + choice) % LETTERS)], logprobs: null };
        }
      }
      for (let choice = 0; choice < choices; choice += 1) {
        yield { type: 'finished', choice, reason: 'length' };
      }
    },
    async prefill({ prompt, snapshot }, signal) {
      signal.throwIfAborted();
      const evaluatedTokens = (await isKept(snapshot)) ? 0 : prompt.length;
      await writeFile(file(snapshot), '1');
      return { tokens: prompt.length, bytes: 1, evaluatedTokens };
    },
    forget: (snapshot) => rm(file(snapshot), { force: true }),
    close: async () => {},
  };
}

const A = 0x61;
const LETTERS = 26;
const yes = () => true;
const no = () => false;

const plugin: EnginePlugin = {
  kind: 'engine',
  name: 'alphabet',
  contract: 1,
  open: async (options) => alphabet(options),
};

export default plugin;
