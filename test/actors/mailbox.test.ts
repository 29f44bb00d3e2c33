/**
 * Owns the proof that a mailbox keeps order and bound.
 * It must not know who reads from it.
 */
import t from 'tap';
import { Mailbox } from '../../src/actors/mailbox.js';
import { limits } from '../../src/limits/index.js';
import { apiError } from '../support/api-error.js';

t.test('first in, first out, however pushes and shifts mix', async (t) => {
  const mailbox = new Mailbox<number>();
  let pushed = 0;
  let shifted = 0;
  for (let round = 1; round < 60; round++) {
    for (let i = 0; i < round % 13; i++) mailbox.push(pushed++);
    for (let i = 0; i < round % 11 && shifted < pushed; i++) {
      if (mailbox.shift() !== shifted++) t.fail('out of order');
    }
    if (mailbox.length !== pushed - shifted) t.fail('wrong length');
  }
  while (shifted < pushed) if (mailbox.shift() !== shifted++) t.fail('out of order');
  t.equal(mailbox.shift(), undefined, 'then it is empty');
  t.equal(mailbox.length, 0);
});

t.test('a full mailbox refuses, except what is owed', async (t) => {
  const mailbox = new Mailbox<number>();
  for (let i = 0; i < limits.mailboxLengthMax; i++) mailbox.push(i);
  t.throws(() => mailbox.push(-1), apiError('overloaded'));
  mailbox.pushUnbounded(-2);
  t.equal(mailbox.length, limits.mailboxLengthMax + 1);
  t.equal(mailbox.shift(), 0);
  t.throws(() => mailbox.push(-1), apiError('overloaded'), 'still full');
  mailbox.shift();
  mailbox.push(-3);
});
