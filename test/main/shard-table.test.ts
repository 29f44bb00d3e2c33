/**
 * The way of a request to its shard, however many owners ask, and whose memory it takes that goes to another node: that of the user
 * whose key it has, or of all those who have none.
 */
import t from 'tap';
import type { Exchange } from '../../src/http/exchange.js';
import type { RequestHead } from '../../src/http/request.js';
import { limits } from '../../src/limits/index.js';
import type { Standing } from '../../src/main/records.js';
import { callerOfRequest, ownerOfRequest } from '../../src/main/request-owner.js';
import { ShardTable } from '../../src/main/shard-table.js';
import { shardOf } from '../../src/rules/shards.js';

function headOf(key: string): RequestHead {
  return {
    method: 'POST',
    path: '/v1/files',
    query: '',
    headers: ['authorization', `Bearer ${key}`],
    requestId: 'r',
    bodyBytes: 1,
    origin: null,
    isForwarded: false,
    refusal: null,
  };
}

/** Of shards that other nodes serve. */
function tableOf(shards: number): ShardTable {
  const standing = { instead: () => async () => {}, isReady: true } as unknown as Standing;
  const table = new ShardTable(
    Array.from({ length: shards }, () => standing),
    [],
  );
  const lookup = (key: string) => (key === 'known' ? { user: 'alice', keyId: 'ak-1' } : null);
  table.open({
    always: [],
    ownerOf: (head) => ownerOfRequest({ lookup }, head),
    callerOf: (head) => callerOfRequest({ lookup }, head),
  });
  return table;
}

for (const shards of [1, 3]) {
  t.test(`${shards} shards`, async (t) => {
    const table = tableOf(shards);
    const heldFor = async (key: string) => {
      const exchange = { heldFor: null } as unknown as Exchange;
      await table.instead(headOf(key))?.(exchange);
      return exchange.heldFor;
    };
    t.equal(await heldFor('known'), 'alice');
    t.equal(await heldFor('of nobody'), '');
    t.equal(
      await heldFor('sk-alice-0123'),
      '',
      'a name in a key that is not known is not believed',
    );
  });
}

t.test('each owner has one shard, however many ask', async (t) => {
  const SHARDS = 5;
  const standings = Array.from({ length: SHARDS }, (_, shard) => ({ origin: `at-${shard}` }));
  const table = new ShardTable(standings as unknown as Standing[], []);
  const ownerOf = ({ path }: { path: string }) => path;
  table.open({ always: [], ownerOf, callerOf: ownerOf });
  const owners = Array.from({ length: limits.shardOwnersKept + 10 }, (_, at) => `user-${at}`);
  owners.push('u'.repeat(limits.ownerLengthMax + 1));
  const wrong = [...owners, ...owners].filter(
    (path) => table.originOf({ path, headers: [] }) !== `at-${shardOf(path, SHARDS)}`,
  );
  t.same(wrong, []);
});
