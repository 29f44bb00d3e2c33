/**
 * Owns the walk over all records of a range, page by page.
 * It must never hold a read transaction between two pages: a scan may take long, and LMDB could not reuse old pages.
 */
import { setImmediate } from 'node:timers/promises';
import { limits } from '../limits/index.js';
import type { Store, StoreEntry, StoreKey, StoreRange } from './store.js';

export interface ScanRange extends Omit<StoreRange, 'limit'> {
  /** Entries per page; `limits.pageLengthMax` if absent. */
  readonly pageLength?: number;
}

type Pages = Pick<Store, 'page'>;

/** Scans without pauses, for a process that serves no requests meanwhile. */
export function* scan(store: Pages, range: ScanRange): Generator<StoreEntry> {
  for (const page of pages(store, range)) yield* page;
}

/** Lets the event loop run between two pages, so that a long scan delays no request. */
export async function* scanWithPauses(
  store: Pages,
  range: ScanRange,
): AsyncGenerator<StoreEntry, void, void> {
  let first = true;
  for (const page of pages(store, range)) {
    if (!first) await setImmediate();
    first = false;
    yield* page;
  }
}

/** No page is empty. A record that is written during the scan is found if it lies ahead. */
export function* pages(
  store: Pages,
  { pageLength = limits.pageLengthMax, ...range }: ScanRange,
): Generator<StoreEntry[]> {
  const { reverse = false } = range;
  for (let last: StoreKey | null = null; ; ) {
    const from = last === null ? {} : reverse ? { before: last } : { after: last };
    const entries = store.page({ ...range, ...from, limit: pageLength });
    if (entries.length > 0) yield entries;
    if (entries.length < pageLength) return;
    last = entries.at(-1)?.key ?? null;
  }
}
