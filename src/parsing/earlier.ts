/**
 * Owns the read of kept items: of what a request goes on from, and of the pages in which they are listed.
 * It must never look for them: it gets their bytes.
 */
import { decodeRecord } from '../codec.js';
import { invalid } from '../errors.js';
import { limits } from '../limits/index.js';
import type { Earlier, EarlierParts, GoesOnFrom } from '../protocol/goes-on.js';
import { scanJson } from '../protocol/json-scan.js';
import {
  type ItemPlace,
  type KeptItems,
  keptItems,
  keptPlaces,
  type StoredPart,
} from '../protocol/responses-items.js';
import type { JsonObject } from '../protocol/schema.js';

/** @throws ApiError where the parts have more values than a body may have. */
export function earlierOf({ before, referenced }: EarlierParts, from: GoesOnFrom): Earlier {
  const read = boundedReader();
  const wanted = new Set(from.references);
  const found: Record<string, JsonObject> = {};
  for (const part of referenced) {
    for (const item of read(part)) {
      if (typeof item.id === 'string' && wanted.has(item.id)) found[item.id] = item;
    }
  }
  return { items: before.flatMap(read), referenced: found };
}

/** Each part was a small body once; all of them together need not be. */
function boundedReader(): (part: StoredPart) => JsonObject[] {
  let left: number = limits.jsonValuesMax;
  return ({ number, bytes }) => {
    const kept = decodeRecord<KeptItems>(bytes);
    const { excess, values } = scanJson(kept.input, left);
    if (excess !== null) {
      throw invalid(
        `what the request goes on from must have at most ${limits.jsonValuesMax} JSON values: begin anew with fewer or simpler items`,
      );
    }
    left -= values;
    return keptItems(kept, number);
  };
}

/** @param inputAlone without what was made of it. */
export function placesIn({ number, bytes }: StoredPart, inputAlone = false): ItemPlace[] {
  const kept = decodeRecord<KeptItems>(bytes);
  return keptPlaces(inputAlone ? { ...kept, output: [] } : kept, number);
}
