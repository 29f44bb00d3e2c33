/**
 * Owns a commit's changes as bytes, which stay as they were when the commit was asked for.
 * It must never look at what is stored.
 */
import { keyBytes } from './key-order.js';
import { assertCommitSize, type StoreChange } from './store.js';

/** A change and its bytes; `value` is null for a removal. */
export interface Step {
  readonly change: StoreChange;
  readonly key: Buffer;
  readonly value: Buffer | null;
}

/** All bytes are made before the first write: an error between two writes would leave half a commit. */
export function stepsOf(changes: readonly StoreChange[]): Step[] {
  assertCommitSize(changes);
  return changes.map((change) => ({
    change,
    key: keyBytes(change.key),
    value: change.type === 'put' ? steady(change.value) : null,
  }));
}

/** Bytes that do not change until they are written. */
function steady(value: Uint8Array): Buffer {
  const { buffer, byteOffset, byteLength } = value;
  const isLarge = buffer instanceof ArrayBuffer && buffer.resizable;
  return isLarge ? Buffer.from(buffer, byteOffset, byteLength) : Buffer.from(value);
}
