/**
 * Owns the reading of hostile documents for a test: pools of readers, a folder for their texts, and a server that nobody may ask.
 * It must never pass a document that ends in neither text nor a reason, or that keeps the next one from being read.
 */
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { systemClock } from '../../../src/clock.js';
import { ExtractionPool, type PoolBounds } from '../../../src/pool/extraction.js';
import { loadConfig } from '../../../src/settings/config.js';
import { listen } from '../listen.js';
import { usualWalls } from '../walls.js';
import type { HostileDocument } from './document.js';

const MIB = 2 ** 20;

/** What a bound costs to reach is smaller here: the suite has no two minutes a document. */
export const IMPATIENT = { pageMsMax: 15_000, memoryBytesMax: 1024 * MIB } as const;

export interface Outcome {
  readonly reason: string | null;
  readonly text: string | null;
}

export class HostileReading {
  /** Where documents point to that refer outwards. */
  readonly outwards: string;
  readonly #folder: string;
  readonly #pool: ExtractionPool;
  readonly #asked: () => number;
  #count = 0;

  private constructor(
    folder: string,
    pool: ExtractionPool,
    server: { readonly url: string; readonly asked: () => number },
  ) {
    this.#folder = folder;
    this.#pool = pool;
    this.outwards = server.url;
    this.#asked = server.asked;
  }

  static async open(t: Test, bounds: Partial<PoolBounds> = {}): Promise<HostileReading> {
    const folder = mkdtempSync(join(tmpdir(), 'preface-hostile-'));
    t.teardown(() => rmSync(folder, { recursive: true, force: true }));
    // One language: what harms is the picture, and each further language is the same work once more.
    const env = { HOME: folder, PREFACE_OCR_LANGUAGES: 'eng' };
    const { extractors, ocrLanguages: languages } = loadConfig({ flags: {}, env });
    const walls = await usualWalls(extractors, []);
    const pool = new ExtractionPool({
      extractors,
      languages,
      walls,
      processes: 2,
      clock: systemClock,
      log: () => {},
      bounds,
    });
    t.teardown(() => pool.close());
    return new HostileReading(folder, pool, await askedServer(t));
  }

  async outcomeOf(bytes: Uint8Array, filename: string, owner = 'somebody'): Promise<Outcome> {
    this.#count += 1;
    const source = join(this.#folder, `${this.#count}.source`);
    const target = join(this.#folder, `${this.#count}.json`);
    writeFileSync(source, bytes);
    const result = await this.#pool.extract({ owner, source, filename, target });
    if (result.type === 'refused') return { reason: result.reason, text: null };
    return { reason: null, text: JSON.parse(readFileSync(target, 'utf8')) as string };
  }

  /**
   * Two at once, so that each has a neighbour. Each of them is one owner's, one after the other: a process that outlived a
   * document reads the next one, which a new process of another owner would say nothing of.
   */
  async checkAll(t: Test, documents: readonly (() => HostileDocument)[]): Promise<void> {
    const waiting = [...documents];
    const work = async (owner: string) => {
      for (let make = waiting.shift(); make; make = waiting.shift()) {
        await this.#check(t, make(), owner);
      }
    };
    await Promise.all([work('one'), work('another')]);
  }

  /** Nobody was asked for anything, and nothing lies about. */
  checkAfterwards(t: Test): void {
    t.equal(this.#asked(), 0);
    const left = readdirSync(this.#folder).filter((name) => !/^\d+\.(source|json)$/.test(name));
    t.same(left, []);
  }

  async #check(t: Test, document: HostileDocument, owner: string): Promise<void> {
    const beganMs = performance.now();
    const { name, bytes, filename = 'x', text, reason } = document;
    const outcome = await this.outcomeOf(bytes, filename, owner);
    const ms = Math.round(performance.now() - beganMs);
    t.comment(`${name}: ${outcome.reason ?? 'read'}, ${ms} ms`);
    if (text !== undefined) t.match(outcome, { text }, name);
    if (reason !== undefined) t.match(outcome, { reason }, name);
    if (outcome.text === null) t.match(outcome.reason, /^.{5,500}$/, name);
    else t.notMatch(outcome.text, /root:/, name);
    const words = createHash('sha256').update(name).digest('hex');
    const next = await this.outcomeOf(Buffer.from(words), 'next.txt', owner);
    t.same(next, { reason: null, text: words }, 'the next');
  }
}

async function askedServer(t: Test): Promise<{ url: string; asked: () => number }> {
  let asked = 0;
  const server = createServer((_, response) => {
    asked += 1;
    response.end('root: what nobody asked for');
  });
  const port = await listen(t, server);
  return { url: `http://127.0.0.1:${port}/secret`, asked: () => asked };
}
