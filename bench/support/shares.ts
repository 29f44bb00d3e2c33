/**
 * Owns the look at how nodes share the shards, through what each says of itself.
 * It must never wait without a bound.
 */
import { until } from '../../test/support/until.js';

const SHARED_MS_MAX = 60_000;
/** One that was stopped takes a connection and says nothing. */
const LOOK_MS_MAX = 10_000;

/** How many shards of the users a node serves; 0 for one that does not answer. */
async function sharesAt(port: number): Promise<number> {
  const signal = AbortSignal.timeout(LOOK_MS_MAX);
  const asked = fetch(`http://127.0.0.1:${port}/metrics`, { signal });
  const text = await asked.then((response) => response.text()).catch(() => '');
  return Number(/^preface_shards_served (\d+)$/m.exec(text)?.[1] ?? 0);
}

/** Waits until all of them have shares that differ by one at most. @returns the shares. */
export async function untilAlike(
  ports: readonly number[],
  shards: number,
): Promise<readonly number[]> {
  let shares: readonly number[] = [];
  await until(
    async () => {
      shares = await Promise.all(ports.map(sharesAt));
      const isWhole = shares.reduce((sum, share) => sum + share, 0) === shards;
      return isWhole && Math.max(...shares) - Math.min(...shares) <= 1;
    },
    SHARED_MS_MAX,
    () => `${shards} shards are shared alike: ${shares.join()}`,
  );
  return shares;
}

/** Resolves when all of them have shares alike, and each answers the user of each key. */
export async function untilShared(
  ports: readonly number[],
  shards: number,
  keys: readonly string[],
): Promise<void> {
  await untilAlike(ports, shards);
  // A node sees a moment later who has a shard now.
  for (const port of ports) {
    for (const key of keys) {
      const url = `http://127.0.0.1:${port}/v1/caching?limit=1`;
      const asked = () => fetch(url, { headers: { authorization: `Bearer ${key}` } });
      await until(async () => (await asked()).ok, SHARED_MS_MAX, `the user of ${key} at ${port}`);
    }
  }
}
