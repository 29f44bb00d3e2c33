/**
 * Owns how a chat's answer tells what became of the cache it named.
 * It must never put anything but printable ASCII into a header.
 */
import type { CacheOutcome } from '../chat/cache-use.js';
import type { Headers } from './exchange.js';

const PREFIX = 'Svc-Context-Cache';

export function cacheHeaders({ status, missReason, hit }: CacheOutcome): Headers {
  const expiry = hit === null ? '' : String(hit.expiredAtS);
  return {
    [`${PREFIX}-Status`]: status,
    ...(missReason === null ? {} : { [`${PREFIX}-Miss-Reason`]: missReason }),
    ...(hit === null
      ? {}
      : {
          [`${PREFIX}-Id`]: hit.cacheId,
          [`${PREFIX}-Token-Saved`]: String(hit.tokensSaved),
          [`${PREFIX}-Token-Exp`]: expiry,
          // The name that older clients read.
          [`${PREFIX}-Token-Ttl`]: expiry,
        }),
  };
}

/** The cache that would have saved the chat more tokens. */
export function nearestHeader(id: string | null): Headers {
  return id === null ? {} : { [`${PREFIX}-Nearest`]: id };
}

/** What the client could do so that its prompts are reused further. */
export function adviceHeader(advice: string | null): Headers {
  return advice === null ? {} : { [`${PREFIX}-Advice`]: advice };
}
