/**
 * Owns the opening of the context caches on top of the engines.
 * It must never serve a request before the caches of the last run are taken up.
 */
import { Caches } from '../caches/caches.js';
import type { PrefillQueue } from '../caches/prefill-queue.js';
import type { PromotedDisk } from '../caches/promoted-disk.js';
import type { Catalog } from '../chat/catalog.js';
import { EnginePrefiller } from '../chat/prefiller.js';
import { cacheReview, type Review } from '../chat/review.js';
import type { Gate } from '../http/gate.js';
import type { Parser } from '../parsing/parser.js';
import { type Context, faultLog } from './context.js';
import type { ShardRecords } from './records.js';

export interface CacheParts extends Pick<ShardRecords, 'records' | 'elsewhere'> {
  readonly gate: Gate;
  readonly catalog: Catalog;
  readonly review: Review | null;
  readonly parser: Parser;
  readonly promoted: PromotedDisk;
  readonly prefills: PrefillQueue;
}

export async function openCaches(
  context: Context,
  { records, elsewhere, gate, catalog, review, parser, promoted, prefills }: CacheParts,
): Promise<Caches> {
  const { config, clock, newBytes, opened } = context;
  const { limits } = config;
  const policyOf = (owner: string) => gate.policies.of(owner);
  const prefiller = new EnginePrefiller(catalog, clock, policyOf, parser);
  const caches = new Caches({
    store: records,
    elsewhere,
    clock,
    newBytes,
    report: faultLog(context, 'cache'),
    prefiller,
    families: catalog.families,
    isOpen: (owner, family) => prefiller.isOpen(owner, family),
    tokensMax: (owner) => policyOf(owner).cachedTokens,
    tagsMax: (owner) => policyOf(owner).tags,
    ...(review === null ? {} : { review: cacheReview(review) }),
    promoted,
    prefills,
    keepMs: limits.cacheKeepMs,
    quotaMax: { count: limits.cachesPerOwner, bytes: limits.cacheBytesPerOwner },
    differ: (owner, one, other) => parser.differ(owner, one, other),
    sharedTokens: (owner, family, stored) => prefiller.sharedTokens(owner, family, stored),
    countTokens: (owner, family, talk) => prefiller.count(owner, family, talk),
  });
  opened.add(caches, (part) => part.close());
  await caches.start();
  return caches;
}
