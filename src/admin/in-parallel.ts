/**
 * Owns work on many things of which a few are under way at a time.
 * It must never begin another one after one that failed, nor return while one is under way.
 */

/** @throws what the first one that failed threw. */
export async function inParallel<Item>(
  items: Iterable<Item> | AsyncIterable<Item>,
  count: number,
  act: (item: Item) => Promise<void>,
): Promise<void> {
  const left = shared(items);
  const failures: unknown[] = [];
  const run = async () => {
    try {
      for await (const item of left) {
        if (failures.length > 0) return;
        await act(item);
      }
    } catch (cause) {
      // The source, too, can fail while others are under way.
      failures.push(cause);
    }
  };
  await Promise.all(Array.from({ length: count }, run));
  if (failures.length > 0) throw failures[0];
}

/** One that leaves does not end it for the others. */
function shared<Item>(items: Iterable<Item> | AsyncIterable<Item>): AsyncIterable<Item> {
  const iterator =
    Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
  return { [Symbol.asyncIterator]: () => ({ next: async () => await iterator.next() }) };
}
