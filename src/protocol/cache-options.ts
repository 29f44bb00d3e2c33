/**
 * Owns how a chat names the cache it wants: by headers, or by a first message of role `cache`.
 * It must never look the cache up, nor know what it holds.
 */
import { invalid } from '../errors.js';
import { limits } from '../limits/index.js';
import { quoted } from './field.js';

export type CacheName =
  | { readonly type: 'id'; readonly id: string }
  | { readonly type: 'tag'; readonly tag: string };

export interface CacheOptions {
  /** null: a dry run that names none. */
  readonly name: CacheName | null;
  /** Header mode never fails a chat. Message mode does when there are no messages to put in place. A mark names no cache: it was found by its prefix. */
  readonly mode: 'header' | 'message' | 'mark';
  readonly dryRun: boolean;
  readonly resetTtlS: number | null;
}

/** What the `cache` message says; null where it leaves it to the headers. */
export interface MessageOptions {
  readonly name: CacheName;
  readonly dryRun: boolean | null;
  readonly resetTtlS: number | null;
}

const HEADER = 'X-Svc-Context-Cache';
const DRY_RUN = `${HEADER}-DryRun`;
const RESET_TTL = `${HEADER}-Reset-TTL`;
const VOLATILE = `${HEADER}-Volatile`;
/** As they are looked for: every chat is asked for them, so that they are put in lower case once. */
const lower = {
  id: HEADER.toLowerCase(),
  dryRun: DRY_RUN.toLowerCase(),
  resetTtl: RESET_TTL.toLowerCase(),
  volatile: VOLATILE.toLowerCase(),
};

/** The value of a header by its lower-case name. */
export type ReadHeader = (name: string) => string | undefined;

/** @param header value of a header by its lower-case name. @returns null when no cache is wanted. */
export function readCacheHeaders(header: ReadHeader): CacheOptions | null {
  const id = header(lower.id)?.trim() || null;
  const { dryRun, resetTtlS } = readUse(header);
  if (id === null && !dryRun) return null;
  return { name: id === null ? null : { type: 'id', id }, mode: 'header', dryRun, resetTtlS };
}

/**
 * In message mode the headers count too, except the one that names a cache. What the message says itself stands nearer
 * to the chat than headers, which a client may give with all its requests.
 */
export function withUseHeaders(said: MessageOptions, header: ReadHeader): CacheOptions {
  const { dryRun, resetTtlS } = readUse(header);
  return {
    name: said.name,
    mode: 'message',
    dryRun: said.dryRun ?? dryRun,
    resetTtlS: said.resetTtlS ?? resetTtlS,
  };
}

function readUse(header: ReadHeader): Pick<CacheOptions, 'dryRun' | 'resetTtlS'> {
  // The HTTP library turns a value that is not ASCII into an empty one, so an empty switch or time is wrong too.
  const get = (name: string) => header(name)?.trim() ?? null;
  return {
    dryRun: readSwitch(`header ${DRY_RUN}`, get(lower.dryRun), DRY_RUN) ?? false,
    resetTtlS: readTtl(`header ${RESET_TTL}`, get(lower.resetTtl), RESET_TTL),
  };
}

/** What becomes of lines that change with every request; null where the client says nothing. @throws ApiError */
export function readVolatileHeader(header: ReadHeader): boolean | null {
  const value = header(lower.volatile)?.trim() ?? null;
  if (value === null) return null;
  if (value === 'move' || value === 'keep') return value === 'move';
  throw invalid(`header ${VOLATILE} must be move or keep, got ${quoted(value)}`, VOLATILE);
}

/** @param content of the `cache` message: options joined by `;`, in any order. */
export function readCacheMessage(content: string): MessageOptions {
  const options = splitOptions(content);
  const id = options.get('cache_id') ?? null;
  const tag = options.get('tag') ?? null;
  if (id !== null && tag !== null) {
    throw invalid(`${FIELD} must hold cache_id or tag, got both`, FIELD);
  }
  if (id === null && tag === null) {
    throw invalid(`${FIELD} must hold cache_id=<id> or tag=<tag>, got neither`, FIELD);
  }
  return {
    name: id === null ? { type: 'tag', tag: tag ?? '' } : { type: 'id', id },
    dryRun: readSwitch(`dry_run in ${FIELD}`, options.get('dry_run') ?? null, FIELD),
    resetTtlS: readTtl(`reset_ttl in ${FIELD}`, options.get('reset_ttl') ?? null, FIELD),
  };
}

const FIELD = 'messages[0].content';
const OPTIONS = ['cache_id', 'tag', 'reset_ttl', 'dry_run'];

function splitOptions(content: string): ReadonlyMap<string, string> {
  const options = new Map<string, string>();
  for (const part of content.split(';')) {
    const equals = part.indexOf('=');
    const name = part.slice(0, Math.max(0, equals));
    if (!OPTIONS.includes(name)) {
      const allowed = OPTIONS.map((option) => `${option}=…`).join(', ');
      throw invalid(
        `${FIELD} must be options of ${allowed} joined by ';', got ${quoted(part)}`,
        FIELD,
      );
    }
    if (options.has(name)) throw invalid(`${FIELD} holds ${name} twice`, FIELD);
    const value = part.slice(equals + 1);
    if (value === '') throw invalid(`${name} in ${FIELD} must not be empty`, FIELD);
    options.set(name, value);
  }
  return options;
}

function readSwitch(name: string, value: string | null, param: string): boolean | null {
  if (value !== null && value !== '0' && value !== '1') {
    throw invalid(`${name} must be 0 or 1, got ${quoted(value)}`, param);
  }
  return value === null ? null : value === '1';
}

function readTtl(name: string, value: string | null, param: string): number | null {
  if (value === null) return null;
  const seconds = /^\d{1,9}$/.test(value) ? Number(value) : 0;
  if (seconds >= 1 && seconds <= limits.cacheTtlSMax) return seconds;
  throw invalid(
    `${name} must be an integer in [1, ${limits.cacheTtlSMax}], got ${quoted(value)}`,
    param,
  );
}
