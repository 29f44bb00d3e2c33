/**
 * Where answers are exact no token of a prompt is evaluated alone.
 * It must never open a context: the places of the cuts are what counts.
 */
import t from 'tap';
import { Prompt } from '../../../plugins/engines/llama/prompt.js';

const EXACT = { held: true, grain: 1, decodeRows: 1, aheadRows: 1 };

function prompt(exact: boolean, evaluated: number): Prompt {
  const made = new Prompt({
    owner: 'alice',
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
