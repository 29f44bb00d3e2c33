/**
 * Owns the proof of where two prompts part, and of how a place in a prompt is told to its client.
 */
import t from 'tap';
import type { ChatMessage } from '../../src/protocol/message.js';
import { partingOf } from '../../src/rules/parting.js';
import { commonUnits, textPlace } from '../../src/rules/text-place.js';

const ids = (text: string) => Uint32Array.from(Buffer.from(text));
const bounds = { gapMax: 8, runMin: 4, placesMax: 3 };
const parting = (one: string, other: string) => partingOf(ids(one), ids(other), bounds);

t.test('prompts that are alike again behind a short difference', async (t) => {
  t.strictSame(parting('at 9:59 we open', 'at 10:00 we open'), { at: 3, again: 8 });
  t.strictSame(parting('a 1 the rest', 'a 2 the rest'), { at: 2, again: 9 });
  t.strictSame(
    parting('a  the rest', 'a 2 the rest'),
    { at: 2, again: 9 },
    'one has nothing there',
  );
  t.strictSame(parting('a 1 and 2 and so', 'a 7 and 8 and so'), { at: 2, again: 12 }, 'two places');
  t.equal(parting('all of it', 'all of it and more'), null, 'the one goes on from the other');
  t.equal(parting('a 1 the', 'a 1 the'), null);
  t.equal(parting('a question', 'a reply of its own'), null, 'nothing is equal again');
  t.equal(parting('a 123456789 the rest', 'a x the rest'), null, 'too long a difference');
});

const message = (content: string): ChatMessage => ({
  role: 'user',
  content,
  name: null,
  toolCalls: [],
  toolCallId: null,
  partial: false,
});

t.test('a place in the prompt is a place in a message', async (t) => {
  const messages = [message('  Rules 😀 of 9:59'), message('Rules'), message('And 1')];
  const prompt = '<s>Rules 😀 of 9:59</s><s>Rules</s><s>And 1</s>';
  const place = (text: string) => textPlace(prompt, prompt.indexOf(text), messages);
  t.strictSame(place('9:59'), { message: 0, character: 13 });
  t.strictSame(place('1</s>'), { message: 2, character: 4 });
  t.strictSame(place('Rules 😀'), { message: 0, character: 2 });
  t.equal(place('<s>'), null, 'what the template writes is in no message');
  t.equal(textPlace('[tools]<s>Rules</s>', 3, [message('Rules')]), null);
});

t.test('a pair of surrogates is not parted', async (t) => {
  t.equal(commonUnits('a😀', 'a😁'), 1);
  t.equal(commonUnits('ab', 'abc'), 2);
  t.equal(commonUnits('', 'a'), 0);
});
