/**
 * Owns the way from the engines of this process to the bucket: each prefilled prefix has its place with the shard of its owner.
 * It must never send or fetch a prefix for a shard whose records do not want it.
 */
import type { Clock } from '../clock.js';
import { limits } from '../limits/index.js';
import { placeOf, type Shard } from '../rules/shards.js';
import type { TakeReport } from '../telemetry/report.js';
import { BucketHealth } from './bucket-health.js';
import { BucketRate } from './bucket-rate.js';
import { HeldBytes } from './held-bytes.js';
import type { S3 } from './s3.js';
import type { OwnerOf } from './snapshot-objects.js';
import { type SnapshotFile, SnapshotTier } from './snapshot-tier.js';

export interface SnapshotTiersParts {
  readonly s3: S3;
  /** Of the engine: where its files are. */
  readonly folder: string;
  /** Of all shards together. */
  readonly bytesMax: number;
  readonly clock: Clock;
  readonly report: TakeReport;
  readonly log: (line: string) => void;
}

export class SnapshotTiers {
  readonly #parts: SnapshotTiersParts;
  readonly #rate: BucketRate;
  readonly #held = new HeldBytes(2 * limits.objectPartBytes);
  readonly #health: BucketHealth;
  readonly #open = new Set<SnapshotTier>();
  /** What came while no shard was open: an engine tells of each file once. */
  #early: SnapshotFile[] = [];
  #fetches = 0;
  #sends: Promise<void> = Promise.resolve();

  constructor(parts: SnapshotTiersParts) {
    this.#parts = parts;
    this.#rate = new BucketRate(parts.clock);
    this.#health = new BucketHealth(parts);
  }

  /** That of a shard. Until it is started it takes what comes, and gives nothing. @param ownerOf by the records of the shard. */
  open(shard: Shard, ownerOf: OwnerOf): SnapshotTier {
    const { s3, folder, bytesMax, clock, report } = this.#parts;
    const tier = new SnapshotTier({
      s3: s3.under(placeOf(shard)),
      folder,
      bytesMax: Math.floor(bytesMax / shard.count),
      objectsMax: Math.floor(limits.bucketSnapshotsMax / shard.count),
      clock,
      report,
      rate: this.#rate,
      held: this.#held,
      inTurn: (send) => this.#inTurn(send),
      health: this.#health,
      ownerOf,
    });
    this.#open.add(tier);
    for (const file of this.#early.splice(0)) this.kept(file);
    return tier;
  }

  /** Before its records are closed. */
  async close(tier: SnapshotTier): Promise<void> {
    this.#open.delete(tier);
    await tier.stop();
  }

  /** See `SnapshotTier` of the contract. */
  async bring(
    wanted: SnapshotFile & { readonly evaluateMs: number | null },
    signal: AbortSignal,
  ): Promise<boolean> {
    const tier = this.#of(wanted);
    if (tier === null || this.#fetches >= limits.bucketFetchesMax) return false;
    this.#fetches += 1;
    try {
      return await tier.bring(wanted, signal);
    } finally {
      this.#fetches -= 1;
    }
  }

  /** As far as is known without asking the bucket. */
  has(snapshot: Pick<SnapshotFile, 'name' | 'fingerprint'>): boolean {
    return this.#of(snapshot)?.has(snapshot) ?? false;
  }

  kept(file: SnapshotFile): void {
    if (this.#open.size > 0) this.#of(file)?.kept(file);
    else if (this.#early.length < limits.bucketSendsWaitingMax) this.#early.push(file);
  }

  damaged(file: SnapshotFile): void {
    this.#of(file)?.damaged(file);
  }

  /** No record wants it any more, so none tells whose it was. */
  forget(name: string): void {
    for (const tier of this.#open) tier.forget(name);
  }

  #inTurn(send: () => Promise<void>): Promise<void> {
    const sent = this.#sends.then(send);
    this.#sends = sent.catch(() => {});
    return sent;
  }

  /** The name of a prefix holds its owner, who is in one shard. */
  #of({ name }: Pick<SnapshotFile, 'name'>): SnapshotTier | null {
    for (const tier of this.#open) if (tier.knows(name)) return tier;
    return null;
  }
}
