/**
 * Owns the random search for an order of faults that makes an actor forget, invent or stall.
 * It must print its seed, and do the same again when `TEST_SEED` gives it one.
 */
import t from 'tap';
import { Registry } from '../../src/actors/registry.js';
import { decodeRecord } from '../../src/codec.js';
import { limits } from '../../src/limits/index.js';
import { seededRandom, testSeed } from '../../src/plugin/test/random-text.js';
import {
  type Counter,
  type CounterMessage,
  type CounterSaved,
  counterLogic,
  type Echo,
} from '../support/counter-logic.js';
import { type Fault, FaultyStore } from '../support/faulty-store.js';
import { SimulatedClock, settled } from '../support/simulated-clock.js';

const RUNS = 60;
const STEPS = 40;
const NAMES = ['a', 'b', 'c'];
const FAULTS: readonly Fault[] = ['none', 'none', 'none', 'lost', 'unsure', 'refused'];

/** What must hold of one actor, seen from its askers. */
interface Ledger {
  /** Each addition is a power of two or more above the last, so that a total tells which ones it holds. */
  asked: number;
  acknowledged: number;
}

class Simulation {
  readonly #random: (below: number) => number;
  readonly #store = new FaultyStore();
  readonly #clock = new SimulatedClock();
  readonly ledgers = new Map<string, Ledger>(
    NAMES.map((name) => [name, { asked: 0, acknowledged: 0 }]),
  );
  readonly broken: string[] = [];
  #life = 0;
  #counters = this.#open();

  constructor(seed: number) {
    this.#random = seededRandom(seed);
    this.#store.nextFault = () => FAULTS[this.#random(FAULTS.length)] ?? 'none';
  }

  async run(): Promise<void> {
    for (let i = 0; i < STEPS; i++) await this.#step(i);
    this.#store.nextFault = () => 'none';
    await this.#crash();
    for (const name of NAMES) this.#counters.ask(name, { type: 'read' });
    await this.#clock.advance(limits.storeRetryMs * 2);
    const waits = (name: string): boolean => (this.#saved(name)?.pending.length ?? 0) > 0;
    for (let turn = 0; turn < STEPS && NAMES.some(waits); turn++) await settled();
    for (const name of NAMES) this.#checkEnd(name);
    await this.#counters.close();
  }

  async #step(i: number): Promise<void> {
    const choice = this.#random(10);
    if (choice < 6) this.#add(this.#pick(NAMES), i);
    else if (choice < 8) await settled();
    else if (choice < 9) await this.#clock.advance(this.#random(2 * limits.storeRetryMs));
    else await this.#crash();
    for (const name of NAMES) this.#checkStored(name);
  }

  #add(name: string, i: number): void {
    const ledger = this.#ledger(name);
    const amount = 2 ** i;
    ledger.asked += amount;
    const life = this.#life;
    Promise.resolve(this.#counters.ask(name, { type: 'add', amount })).then(
      () => {
        // What a dead process would have said, nobody heard.
        if (life === this.#life) ledger.acknowledged += amount;
      },
      () => {},
    );
  }

  /** The process is gone in the middle of whatever it did; what had reached the store by then stays. */
  async #crash(): Promise<void> {
    this.#life += 1;
    this.#counters = this.#open();
  }

  #open(): Registry<Counter, CounterSaved, CounterMessage, Counter, Echo> {
    const life = this.#life;
    const store = this.#storeOf(life);
    return new Registry({
      logic: counterLogic,
      clock: this.#clock,
      store,
      report: () => {},
      runEffect: async ({ addition }, name) => {
        if (life !== this.#life) return new Promise(() => {});
        const additions = this.#saved(name)?.additions ?? 0;
        if (addition > additions)
          this.broken.push(`effect ${addition} of ${name} before its commit`);
        await settled();
        return { type: 'echoed', addition };
      },
    });
  }

  /** A dead process writes nothing more. */
  #storeOf(life: number): FaultyStore {
    return new Proxy(this.#store, {
      get: (store, name: keyof FaultyStore) => {
        if (name === 'commit' && life !== this.#life) return () => new Promise(() => {});
        const member = store[name];
        return typeof member === 'function' ? member.bind(store) : member;
      },
    });
  }

  #checkStored(name: string): void {
    const total = BigInt(this.#saved(name)?.total ?? 0);
    const { asked, acknowledged } = this.#ledger(name);
    if ((total & BigInt(acknowledged)) !== BigInt(acknowledged)) {
      this.broken.push(`${name} forgot: holds ${total}, acknowledged ${acknowledged}`);
    }
    if ((total | BigInt(asked)) !== BigInt(asked)) {
      this.broken.push(`${name} invented: holds ${total}, asked ${asked}`);
    }
    const indexes = this.#store
      .page({ prefix: ['total'], limit: 100 })
      .filter(({ key }) => key[2] === name);
    const expected = total === 0n ? 0 : 1;
    if (indexes.length !== expected || (expected && BigInt(indexes[0]?.key[1] ?? -1) !== total)) {
      this.broken.push(`${name}: record and index disagree`);
    }
  }

  #checkEnd(name: string): void {
    this.#checkStored(name);
    const pending = this.#saved(name)?.pending ?? [];
    if (pending.length > 0) this.broken.push(`${name} still waits for ${pending.join()}`);
  }

  #saved(name: string): CounterSaved | null {
    const record = this.#store.get(['counter', name]);
    return record ? decodeRecord<CounterSaved>(record.value) : null;
  }

  #ledger(name: string): Ledger {
    const ledger = this.ledgers.get(name);
    if (!ledger) throw new Error(`no ledger of ${name}`);
    return ledger;
  }

  #pick(names: readonly string[]): string {
    return names[this.#random(names.length)] ?? 'a';
  }
}

t.test(
  'no order of failed writes and crashes makes an actor forget, invent or stall',
  async (t) => {
    const seed = testSeed();
    t.comment(`TEST_SEED=${seed}`);
    let acknowledged = 0;
    for (let run = 0; run < RUNS; run++) {
      const simulation = new Simulation(seed + run);
      await simulation.run();
      if (simulation.broken.length > 0) {
        t.fail(`TEST_SEED=${seed + run}: ${simulation.broken.slice(0, 3).join('; ')}`);
      }
      for (const ledger of simulation.ledgers.values())
        acknowledged += ledger.acknowledged > 0 ? 1 : 0;
    }
    t.ok(acknowledged > RUNS, `${acknowledged} actors acknowledged something`);
  },
);
