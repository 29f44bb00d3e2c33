/**
 * Owns what every extractor plugin has to keep, as one suite that each of them calls.
 * It must never know a file format.
 */
import { readFileSync } from 'node:fs';
import { readDocument } from '../../pool/document-reader.js';
import { documentBounds } from '../../pool/extraction.js';
import type { ReadResult } from '../../pool/messages.js';
import type {
  DocumentClaim,
  DocumentPage,
  ExtractionBounds,
  Extractor,
  ExtractorPlugin,
  SourceDocument,
} from '../contract.js';
import { mutation, truncations } from './damage.js';
import { PageTexts } from './page-texts.js';
import { seededRandom, testSeed } from './random-text.js';
import type { SuiteTest } from './suite-test.js';

export interface GoodDocument {
  /** Or the path or URL of a file that holds them. */
  readonly bytes: Uint8Array | string | URL;
  readonly filename: string;
  readonly fileType: string;
  /** Left out: `content`, which then needs no name. */
  readonly ground?: DocumentClaim['ground'];
  /** Parts of its text, in the order of reading. Blanks count as one space. */
  readonly words: readonly string[];
  readonly pages?: number;
  readonly title?: string;
  /** Bounds that the document reaches when each of them alone is set to 1. */
  readonly reaches?: readonly (keyof ExtractionBounds)[];
}

export interface ExtractorTrial {
  readonly plugin: ExtractorPlugin;
  readonly documents: readonly GoodDocument[];
  readonly languages?: readonly string[];
  /** Damaged copies of each document; where reading one takes seconds, fewer. */
  readonly truncations?: number;
  readonly mutations?: number;
}

/** A document that is damaged may take its time, but not for ever. */
const READ_MS_MAX = 60_000;
const codes: readonly unknown[] = ['encrypted', 'damaged', 'no_text', 'unsupported', 'bound'];

export function extractorSuite(t: SuiteTest, trial: ExtractorTrial): void {
  t.setTimeout(600_000);
  t.test(`${trial.plugin.name} keeps the contract of an extractor`, async (t) => {
    const extractor = await openExtractor(trial);
    t.teardown(() => extractor.close());
    for (const good of trial.documents) {
      const source = sourceOf(good);
      t.test(`${good.filename} is claimed`, async (t) => checkClaim(t, extractor, good, source));
      t.test(`${good.filename} is read`, async (t) => await checkText(t, extractor, good, source));
      t.test(`${good.filename} keeps the bounds`, async (t) => await checkBounds(t, trial, good));
      t.test(`${good.filename} may be damaged`, async (t) => {
        await checkDamage(t, extractor, good, source, trial);
      });
    }
    t.test('what is something else is not claimed for its bytes', async (t) => {
      checkStrangers(t, extractor, trial);
    });
  });
}

function checkClaim(
  t: SuiteTest,
  extractor: Extractor,
  good: GoodDocument,
  { bytes }: SourceDocument,
) {
  const { fileType, filename, ground = 'content' } = good;
  t.same(extractor.accepts({ bytes, filename }), { fileType, ground });
  if (ground !== 'content') return;
  for (const name of ['upload', 'x.bin', '']) {
    t.match(extractor.accepts({ bytes, filename: name }), { ground }, `called "${name}"`);
  }
}

async function checkText(
  t: SuiteTest,
  extractor: Extractor,
  good: GoodDocument,
  source: SourceDocument,
): Promise<void> {
  const before = Buffer.from(source.bytes);
  const pages = await readAll(extractor, source);
  const text = flat(pages.map((page) => page.text).join(' '));
  let at = 0;
  for (const words of good.words) {
    const found = text.indexOf(flat(words), at);
    t.ok(found >= 0, `"${words}" after ${at}`, { text: text.slice(at, at + 2000) });
    at = Math.max(found, at);
  }
  if (good.pages !== undefined) t.equal(pages.length, good.pages, 'pages');
  for (const page of pages) {
    t.ok([null, pages.length].includes(page.pages), 'total of pages');
    const lines = page.text.split('\n').length;
    if (page.layout !== undefined)
      t.equal(page.layout.lines.length, lines, 'a place for each line');
  }
  const title = pages.find((page) => page.title)?.title ?? '';
  if (good.title !== undefined) t.equal(title, good.title);
  t.same(await readAll(extractor, source), pages, 'the same again');
  t.ok(before.equals(source.bytes), 'its bytes are as they were');
  for await (const page of extractor.extract(source, claimOf(extractor, source))) {
    t.same(page, pages[0], 'a first page for who wants no more');
    break;
  }
}

async function checkBounds(t: SuiteTest, trial: ExtractorTrial, good: GoodDocument): Promise<void> {
  const { pages = 1, reaches = [] } = good;
  t.match(await readWith(trial, good, {}), { type: 'extracted' }, 'the usual bounds');
  const reached = [...reaches, 'textLengthMax', ...(pages > 1 ? ['pagesMax'] : [])];
  for (const name of new Set(reached)) {
    const result = await readWith(trial, good, { [name]: 1 });
    t.match(result, { type: 'refused', reason: /\d/ }, name);
    t.notMatch(result, { reason: /damaged/ }, name);
  }
  if (pages > 0) t.match(await readWith(trial, good, { pagesMax: pages }), { type: 'extracted' });
}

async function checkDamage(
  t: SuiteTest,
  extractor: Extractor,
  { filename }: GoodDocument,
  { bytes }: SourceDocument,
  trial: ExtractorTrial,
): Promise<void> {
  const seed = testSeed();
  const random = seededRandom(seed);
  const cut = truncations(bytes, trial.truncations ?? 10);
  const mutated = Array.from({ length: trial.mutations ?? 20 }, () => mutation(bytes, random));
  for (const [at, damaged] of [...cut, ...mutated].entries()) {
    const name = at < cut.length ? `cut at ${damaged.length}` : `mutation ${at - cut.length}`;
    const fault = await faultOf(extractor, { bytes: damaged, filename });
    if (fault !== null) t.fail(`${name}, seed ${seed}: ${fault}`);
  }
  t.pass(`TEST_SEED=${seed}`);
}

/** Null where it was not claimed, was read, or was refused in the way the contract says. */
async function faultOf(extractor: Extractor, source: SourceDocument): Promise<string | null> {
  const claim = extractor.accepts(source);
  if (claim === null) return null;
  const end = Date.now() + READ_MS_MAX;
  try {
    for await (const { text } of extractor.extract(source, claim)) {
      if (typeof text !== 'string') return `a page of ${typeof text}`;
      if (Date.now() > end) return 'it takes too long';
    }
    return null;
  } catch (cause) {
    if (!(cause instanceof Error)) return `threw ${String(cause)}`;
    const { code, message, stack } = cause as NodeJS.ErrnoException;
    if (!codes.includes(code)) return `threw the code ${code}: ${stack}`;
    const tells = /node_modules|file:|\n|\bat [\w.]+ \(/.test(message) || message === '';
    return tells ? `told the uploader: ${message}` : null;
  }
}

function checkStrangers(t: SuiteTest, extractor: Extractor, trial: ExtractorTrial): void {
  const random = seededRandom(1);
  const strangers = {
    nothing: Buffer.alloc(0),
    zeros: Buffer.alloc(4096),
    noise: Buffer.from(Array.from({ length: 4096 }, () => random(256))),
    prose: Buffer.from('A harbour, a light, and the one who keeps it.\n'.repeat(50)),
  };
  for (const { filename } of trial.documents) {
    for (const [name, bytes] of Object.entries(strangers)) {
      t.not(extractor.accepts({ bytes, filename })?.ground, 'content', `${name} as ${filename}`);
    }
  }
}

// -------------------------------------------------------------------- parts

function openExtractor(
  { plugin, languages = [] }: ExtractorTrial,
  bounds: Partial<ExtractionBounds> = {},
): Promise<Extractor> {
  return plugin.open({ bounds: { ...documentBounds, ...bounds }, languages });
}

/** As the service reads it: some bounds are kept by who drives the extractor. */
async function readWith(
  trial: ExtractorTrial,
  good: GoodDocument,
  some: Partial<ExtractionBounds>,
): Promise<ReadResult> {
  const extractor = await openExtractor(trial, some);
  try {
    const { bytes, filename } = sourceOf(good);
    const bounds = { ...documentBounds, ...some };
    const open = { name: trial.plugin.name, extractor, bounds };
    const { result } = await readDocument([open], { bytes, filename }, new PageTexts());
    return result;
  } finally {
    await extractor.close();
  }
}

function sourceOf({ bytes, filename }: GoodDocument): SourceDocument {
  return { bytes: bytes instanceof Uint8Array ? bytes : readFileSync(bytes), filename };
}

async function readAll(extractor: Extractor, source: SourceDocument): Promise<DocumentPage[]> {
  const pages: DocumentPage[] = [];
  for await (const page of extractor.extract(source, claimOf(extractor, source))) pages.push(page);
  return pages;
}

function claimOf(extractor: Extractor, source: SourceDocument): DocumentClaim {
  const claim = extractor.accepts(source);
  if (claim === null) throw new Error(`${source.filename} is not claimed`);
  return claim;
}

function flat(text: string): string {
  return text.replace(/\s+/g, ' ').trim();
}
