/**
 * Owns the download of a file over HTTP into a partial file, continued where it broke off.
 * It must never give the partial file its final name, nor continue that of another file.
 */
import { open, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { checkRoom } from './room.js';
import type { Announced, SourceContext } from './source.js';

/** @returns path of the partial file, which has its full length by then. */
export async function download(address: string, context: SourceContext): Promise<string> {
  const part = `${context.path}.part`;
  for (let attempt = 1; ; attempt += 1) {
    const before = await sizeOf(part);
    try {
      await fetchRest(address, part, context);
      return part;
    } catch (cause) {
      // Another attempt only after a connection that brought some bytes.
      const progressed = (await sizeOf(part)) > before;
      if (!progressed || attempt >= context.limits.hubAttemptsMax) throw cause;
      context.progress.line(`the connection broke (${(cause as Error).message}), continuing`);
    }
  }
}

/** What the server says of the file, without its content. */
export async function announcedBy(address: string, context: SourceContext): Promise<Announced> {
  const watch = new Watch(context.limits.hubStallMsMax);
  const announced: Announced = { bytes: null, sha256: null };
  try {
    // Not every server answers HEAD. The body is not read: the watch ends the connection.
    const response = await request(address, {}, watch, { ...context, announced });
    startOf(response, 0);
    announced.bytes ??= Number(response.headers.get('content-length')) || null;
    return announced;
  } finally {
    watch.stop();
  }
}

async function sizeOf(path: string): Promise<number> {
  return (await stat(path).catch(() => ({ size: 0 }))).size;
}

async function fetchRest(address: string, part: string, context: SourceContext): Promise<void> {
  const { spec } = context;
  const tag = await readFile(`${part}.etag`, 'utf8').catch(() => '');
  const have = tag === '' ? 0 : await sizeOf(part);
  if (have > 0 && have === spec.bytes) return;
  const resumable = have > 0 && (spec.bytes === null || have < spec.bytes);
  const headers = resumable ? { range: `bytes=${have}-`, 'if-range': tag } : {};
  const watch = new Watch(context.limits.hubStallMsMax);
  try {
    const response = await request(address, headers, watch, context);
    if (response.status === 416 && resumable) {
      await rm(part, { force: true });
      return await fetchRest(address, part, context);
    }
    const from = startOf(response, resumable ? have : 0);
    checkLength(response, from, context);
    const length = Number(response.headers.get('content-length'));
    await checkRoom(context.path, length || null);
    if (from === 0) await beginPart(part, response);
    await append(response, part, from, watch, context);
  } finally {
    watch.stop();
  }
}

/** Aborts when no bytes arrive for too long. */
class Watch {
  readonly #abort = new AbortController();
  #timer: NodeJS.Timeout | undefined;

  constructor(readonly stallMs: number) {}

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  expect(within: number = this.stallMs): void {
    clearTimeout(this.#timer);
    const failure = new Error(`no answer within ${within / 1000} s`);
    this.#timer = setTimeout(() => this.#abort.abort(failure), within);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#abort.abort(new Error('ended'));
  }
}

/** Follows redirects itself, so that each server has the full time to answer. */
async function request(
  address: string,
  headers: Record<string, string>,
  watch: Watch,
  { limits, announced }: SourceContext,
): Promise<Response> {
  let url = address;
  for (let hops = 0; hops <= limits.hubRedirectsMax; hops += 1) {
    watch.expect(limits.hubAnswerMsMax);
    const wanted = { 'accept-encoding': 'identity', ...headers };
    const response = await fetch(url, {
      headers: wanted,
      redirect: 'manual',
      signal: watch.signal,
    });
    note(response.headers, announced);
    const next = response.headers.get('location');
    if (response.status < 300 || response.status > 399 || next === null) return response;
    await response.body?.cancel();
    url = new URL(next, url).href;
  }
  throw new Error(`more than ${limits.hubRedirectsMax} redirects`);
}

/** The hub tells size and SHA-256 of the file with the redirect to where it lies. */
function note(headers: Headers, announced: Announced): void {
  const sha256 = /^"?([0-9a-f]{64})"?$/.exec(headers.get('x-linked-etag') ?? '')?.[1];
  const bytes = /^\d{1,15}$/.exec(headers.get('x-linked-size') ?? '')?.[0];
  if (sha256 !== undefined) announced.sha256 = sha256;
  if (bytes !== undefined) announced.bytes = Number(bytes);
}

/** @returns the offset at which the body begins. */
function startOf(response: Response, asked: number): number {
  if (response.status === 200) return 0;
  const from = /^bytes (\d+)-/.exec(response.headers.get('content-range') ?? '')?.[1];
  if (response.status === 206 && Number(from) === asked) return asked;
  throw new Error(`the server answered ${response.status} ${response.statusText}`.trim());
}

function checkLength(response: Response, from: number, { spec }: SourceContext): void {
  const length = response.headers.get('content-length');
  if (length === null || spec.bytes === null || from + Number(length) === spec.bytes) return;
  throw new Error(`the server has ${from + Number(length)} bytes, expected ${spec.bytes}`);
}

/** Without a strong ETag nobody knows whether the rest belongs to the same file: then the download starts again. */
async function beginPart(part: string, response: Response): Promise<void> {
  await rm(part, { force: true });
  const tag = response.headers.get('etag') ?? '';
  await writeFile(`${part}.etag`, tag.startsWith('W/') ? '' : tag);
}

async function append(
  response: Response,
  part: string,
  from: number,
  watch: Watch,
  { spec, progress }: SourceContext,
): Promise<void> {
  if (response.body === null) throw new Error('the answer has no body');
  const total = spec.bytes ?? (from + Number(response.headers.get('content-length')) || null);
  // For those who watch the download from another process.
  await writeFile(`${part}.bytes`, total === null ? '' : String(total));
  const file = await open(part, 'a');
  const meter = progress.start(spec.file, from, total);
  let done = from;
  try {
    watch.expect();
    for await (const chunk of response.body) {
      await file.write(chunk);
      done += chunk.length;
      if (total !== null && done > total) throw new Error('the server sent more than it announced');
      meter.at(done);
      watch.expect();
    }
  } finally {
    meter.end();
    await file.close();
  }
  if (total !== null && done < total)
    throw new Error(`the answer ended after ${done} of ${total} bytes`);
}
