/**
 * Owns what the suites need of a test runner, and how Node's own runner gives it.
 * It must never import a test runner: the caller of a suite passes one in.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';

/** What an assertion says when it fails. */
export type Say = [] | [message: string] | [message: string, more: object];

/** The `t` of tap is one; `underNode` makes one of Node's. */
export interface SuiteTest {
  /** Tests of one parent run one after the other, in the order of their calls. */
  test(name: string, run: (t: SuiteTest) => Promise<void>): unknown;
  before(run: () => Promise<void>): void;
  teardown(run: () => unknown): void;
  setTimeout(ms: number): unknown;
  pass(...say: Say): unknown;
  fail(...say: Say): unknown;
  ok(found: unknown, ...say: Say): unknown;
  notOk(found: unknown, ...say: Say): unknown;
  equal(found: unknown, wanted: unknown, ...say: Say): unknown;
  not(found: unknown, wrong: unknown, ...say: Say): unknown;
  /** Equal by value, at any depth. */
  same(found: unknown, wanted: unknown, ...say: Say): unknown;
  /** A text by a pattern, or an object by the fields that are given. */
  match(found: unknown, wanted: object, ...say: Say): unknown;
  notMatch(found: unknown, wrong: object, ...say: Say): unknown;
  rejects(promise: Promise<unknown>): Promise<unknown>;
}

/**
 * Runs a suite inside a test of `node:test`:
 * `test('my engine', (t) => underNode(t, (t) => engineSuite(t, open)))`.
 */
export async function underNode(
  context: TestContext,
  run: (t: SuiteTest) => Promise<void> | void,
): Promise<void> {
  const t = new NodeTest(context);
  await run(t);
  await t.finished();
}

class NodeTest implements SuiteTest {
  readonly #context: TestContext;
  /** Node 20 ends a test without waiting for the tests inside it. */
  #inner: Promise<unknown> = Promise.resolve();

  constructor(context: TestContext) {
    this.#context = context;
  }

  async finished(): Promise<void> {
    let last: Promise<unknown>;
    do {
      last = this.#inner;
      await last;
    } while (last !== this.#inner);
  }

  test(name: string, run: (t: SuiteTest) => Promise<void>): void {
    const start = () => this.#context.test(name, (context) => underNode(context, run));
    this.#inner = this.#inner.then(start);
  }

  before(run: () => Promise<void>): void {
    this.#inner = this.#inner.then(run);
  }

  teardown(run: () => unknown): void {
    this.#context.after(async () => {
      await run();
    });
  }

  /** Node's runner has no bound unless its command line sets one. */
  setTimeout(): void {}

  pass(): void {}

  fail(...[message]: Say): void {
    assert.fail(message);
  }

  ok(found: unknown, ...[message]: Say): void {
    assert.ok(found, message);
  }

  notOk(found: unknown, ...[message]: Say): void {
    assert.ok(!found, message);
  }

  equal(found: unknown, wanted: unknown, ...[message]: Say): void {
    assert.equal(found, wanted, message);
  }

  not(found: unknown, wrong: unknown, ...[message]: Say): void {
    assert.notEqual(found, wrong, message);
  }

  same(found: unknown, wanted: unknown, ...[message]: Say): void {
    assert.deepEqual(found, wanted, message);
  }

  match(found: unknown, wanted: object, ...[message]: Say): void {
    assert.ok(matches(found, wanted), message ?? `${JSON.stringify(found)} does not match`);
  }

  notMatch(found: unknown, wrong: object, ...[message]: Say): void {
    assert.ok(!matches(found, wrong), message ?? `${JSON.stringify(found)} matches`);
  }

  rejects(promise: Promise<unknown>): Promise<void> {
    return assert.rejects(promise);
  }
}

function matches(found: unknown, wanted: unknown): boolean {
  if (wanted instanceof RegExp) return wanted.test(String(found));
  if (typeof wanted !== 'object' || wanted === null) return Object.is(found, wanted);
  if (typeof found !== 'object' || found === null) return false;
  const fields = found as Readonly<Record<string, unknown>>;
  return Object.entries(wanted).every(([name, value]) => matches(fields[name], value));
}
