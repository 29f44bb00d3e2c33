/**
 * Owns the look at whose a request is, before it is let in: by that it is sent to the shard that answers it.
 * It must never let a request in: the gate of the shard does.
 */
import { requestKey } from '../http/auth.js';
import type { Keys } from '../http/gate.js';
import { headerOf, type RequestHead } from '../http/request.js';
import { keyOwner } from '../store/keys.js';

const USER = /^\/admin\/v1\/users\/([^/]+)(?:\/|$)/;

/**
 * The account of the key, or the user that an operator names in the path; null: nobody that is known. The name in a key that is
 * not known serves too: it was made a moment ago, on the node that has its shard.
 */
export function ownerOfRequest(
  keys: Pick<Keys, 'lookup'>,
  { path, headers }: Pick<RequestHead, 'path' | 'headers'>,
): string | null {
  const [, user] = USER.exec(path) ?? [];
  try {
    if (user !== undefined) return decodeURIComponent(user);
    const bearer = keyIn(headers);
    return keys.lookup(bearer)?.user ?? keyOwner(bearer);
  } catch {
    // A key or a name that cannot be read: any shard refuses it.
    return null;
  }
}

/** The account of the key; null: the key is not known here, whatever name stands in it. */
export function callerOfRequest(
  keys: Pick<Keys, 'lookup'>,
  { headers }: Pick<RequestHead, 'headers'>,
): string | null {
  try {
    return keys.lookup(keyIn(headers))?.user ?? null;
  } catch {
    return null;
  }
}

function keyIn(headers: readonly string[]): string {
  return requestKey(headerOf(headers, 'authorization'), headerOf(headers, 'x-api-key'));
}
