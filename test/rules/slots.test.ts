/** The slots: which one an owner is in, and what its things are called. */
import t from 'tap';
import { ownerOf } from '../../src/rules/account-policy.js';
import { allSlots, nameOf, onlySlot, slotOf } from '../../src/rules/slots.js';

const COUNT = 16;

t.test('an owner is where they were, by every version', async (t) => {
  t.same(
    ['alice', 'bob', 'carol', 'acme.example'].map((owner) => slotOf(owner, COUNT)),
    [9, 8, 7, 7],
  );
});

t.test('the persons of an account are in its slot', async (t) => {
  for (let at = 0; at < 100; at++) {
    const account = `account-${at}`;
    t.equal(slotOf(ownerOf(account, `person ${at}`), COUNT), slotOf(account, COUNT));
  }
});

t.test('each slot has about as many owners as any other', async (t) => {
  const slots = Array.from({ length: 16_000 }, (_, at) => slotOf(`user-${at}`, COUNT));
  for (const { index } of allSlots(COUNT)) {
    const { length } = slots.filter((slot) => slot === index);
    t.ok(length > 850 && length < 1_150, `${length} of about 1000`);
  }
});

t.test('the only slot has all owners, and plain names', async (t) => {
  t.equal(slotOf('alice', onlySlot.count), onlySlot.index);
  t.equal(nameOf('records', onlySlot), 'records');
  t.same(
    allSlots(3).map((slot) => nameOf('records', slot)),
    ['records-0', 'records-1', 'records-2'],
  );
});
