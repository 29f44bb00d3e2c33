/**
 * Owns a page of the files of all owners, for the operator.
 * It must never read a blob.
 */
import type { PageQuery } from '../protocol/page-query.js';
import type { FileRecord } from '../rules/file-state.js';
import { pageRange } from '../rules/paging.js';
import { firstOfAll } from '../store/scan.js';
import type { Store } from '../store/store.js';
import { fileIdOf, fileKeys, listPlace } from './records.js';

export interface FilePage {
  readonly files: readonly FileRecord[];
  readonly hasMore: boolean;
}

/**
 * @param read a record; null: it is gone, or damaged.
 * @throws ApiError for a `before` or `after` that names no file.
 */
export async function listAllFiles(
  query: PageQuery,
  store: Pick<Store, 'page'>,
  read: (id: string) => FileRecord | null,
): Promise<FilePage> {
  const range = pageRange(query, (id) => {
    const record = read(id);
    return record && listPlace(record);
  });
  const limit = query.limit + 1;
  const entries = await firstOfAll(store, { root: fileKeys.byOwner, ...range, limit });
  const files = entries.slice(0, query.limit).flatMap((entry) => read(fileIdOf(entry)) ?? []);
  return { files, hasMore: entries.length > query.limit };
}
