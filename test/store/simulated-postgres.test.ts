/**
 * The database of the simulations answers each statement of the store as PostgreSQL does.
 */
import t, { type Test } from 'tap';
import { type Random, seededRandom, testSeed } from '../../src/plugin/test/random-text.js';
import { logOf } from '../../src/store/change-log.js';
import { PostgresConnection, type Statement } from '../../src/store/postgres-connection.js';
import { type PartRow, statements, tables } from '../../src/store/postgres-tables.js';
import { skipPostgres, TestPostgres } from '../support/postgres.js';
import { SimulatedPostgres } from '../support/simulated-postgres.js';

const STATEMENTS = 600;
/** A lease of no length has ended with the next statement, one of a day lasts. */
const LEASES_MS = [0, 86_400_000];

function randomStatement(random: Random, fences: readonly string[]): [Statement, unknown[]] {
  const part = random(8) === 0 ? 'keys' : random(8) === 0 ? 'records-1' : 'records';
  const node = `node-${random(3)}`;
  const holder = `holder ${random(3)}`;
  const ms = LEASES_MS[random(2)];
  const last = fences.at(-1) ?? null;
  const fence = random(2) === 0 ? last : (fences[random(fences.length)] ?? null);
  const keys = [...new Set([random(6), random(6), random(6)])].map((at) => Buffer.from([at, 255]));
  const values = keys.map((key) => (random(3) === 0 ? null : Buffer.concat([key, key])));
  const parts = keys.map((_, at) => (at === 1 ? logOf('keys') : part));
  const version = 1 + random(50);
  const all: [Statement, unknown[]][] = [
    [statements.addPart, [part, 'the id', 1]],
    [statements.readPart, [part]],
    [statements.takeLease, [part, holder, ms]],
    [statements.retakeLease, [part, holder, ms]],
    [statements.renewLease, [part, fence, ms]],
    [statements.releaseLease, [part, random(4) === 0 ? fence : null]],
    [statements.write, [part, fence, ms, version, parts, keys, values]],
    [statements.write, [part, last, ms, version, parts, keys, values]],
    [statements.forget, [part, keys]],
    [statements.prune, [logOf('keys'), keys[0]]],
    [statements.rows, [part, keys]],
    [statements.page, [part, keys[0], 1 + random(4)]],
    [statements.changes, [part, version]],
    [statements.announceNode, [node, 'the id', 1, holder, ms]],
    [statements.removeNode, [node]],
    [statements.removeDeadNodes, [LEASES_MS[random(2)]]],
    [statements.holders, []],
  ];
  return all[random(all.length)] ?? [statements.readPart, [part]];
}

async function same(t: Test, server: TestPostgres): Promise<void> {
  const seed = testSeed();
  t.comment(`TEST_SEED=${seed}`);
  const random = seededRandom(seed);
  const connection = new PostgresConnection(await server.database());
  t.teardown(() => connection.close());
  let nowMs = 1;
  const simulated = new SimulatedPostgres(() => nowMs);
  for (const table of tables) await connection.query(table);
  const fences: string[] = [];
  for (let at = 0; at < STATEMENTS; at++) {
    const [statement, values] = randomStatement(random, fences);
    const real = await connection.query<Partial<PartRow>>(statement, values);
    nowMs += 1;
    const told = simulated.carryOut<Partial<PartRow>>(statement, values);
    // Changes of one version come in any order.
    const sorted = ({ rows }: typeof real) => rows.map((row) => JSON.stringify(row)).sort();
    if (!t.same(sorted(told), sorted(real), `${at}: ${statement.name}`)) return;
    if (!t.equal(told.count, real.count, `${at}: count of ${statement.name}`)) return;
    fences.push(...real.rows.flatMap(({ fence }) => fence ?? []));
  }
  t.ok(fences.length > 10, `leases were taken ${fences.length} times`);
}

t.setTimeout(180_000);
if (skipPostgres !== false) t.pass('skipped', { skip: skipPostgres });
else {
  const server = await TestPostgres.start(t);
  await t.test('each statement has the answer of PostgreSQL', (t) => same(t, server));
}
