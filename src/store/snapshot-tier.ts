/**
 * Owns a shard's prefilled prefixes in a bucket, behind the disk of the engine that makes them: sent behind, fetched where it pays.
 * It must never make a chat wait longer than evaluating would take, nor fail anything: without the bucket, all is evaluated.
 */
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../clock.js';
import { codeOf } from '../errors.js';
import { limits } from '../limits/index.js';
import type { TakeReport } from '../telemetry/report.js';
import { poured } from './blob-copy.js';
import type { BlobWriter } from './blobs.js';
import type { BucketHealth } from './bucket-health.js';
import type { BucketRate } from './bucket-rate.js';
import type { HeldBytes } from './held-bytes.js';
import type { S3 } from './s3.js';
import { S3Writer } from './s3-writer.js';
import { type Fetched, fetchSnapshot } from './snapshot-fetch.js';
import { type OwnerOf, objectOf, SnapshotObjects } from './snapshot-objects.js';

export interface SnapshotFile {
  readonly name: string;
  readonly fingerprint: string;
  readonly file: string;
  readonly bytes: number;
}

export interface SnapshotTierParts {
  /** With the place of the shard. */
  readonly s3: S3;
  /** Of the engine: where its files are. */
  readonly folder: string;
  readonly bytesMax: number;
  readonly objectsMax: number;
  readonly clock: Clock;
  readonly report: TakeReport;
  readonly rate: BucketRate;
  /** Of what is sent. */
  readonly held: HeldBytes;
  /** Sends what the shards have, one after the other. */
  readonly inTurn: (send: () => Promise<void>) => Promise<void>;
  readonly health: BucketHealth;
  /** By the records of the shard. */
  readonly ownerOf: OwnerOf;
}

/** A name as the engine gives its files; it must not lead anywhere else. */
const FILE = /^[a-z0-9]{1,64}\.[a-z0-9]{1,64}(?:\.\d{1,15}\.tmp)?$/;

export class SnapshotTier {
  readonly #parts: SnapshotTierParts;
  readonly #waiting = new Map<string, SnapshotFile>();
  readonly #stop = new AbortController();
  #ownerOf: OwnerOf;
  /** null until it is certain that the bucket is that of the records. */
  #objects: SnapshotObjects | null = null;
  #sends: Promise<void> | null = null;
  #cancelSweep = () => {};
  #sweep: Promise<void> = Promise.resolve();
  #removals: Promise<void> = Promise.resolve();

  constructor(parts: SnapshotTierParts) {
    this.#parts = parts;
    this.#ownerOf = parts.ownerOf;
  }

  /** Whether a record of the shard wants it. */
  knows(name: string): boolean {
    return this.#ownerOf(name) !== null;
  }

  /** Nothing waits for what it begins. */
  start(): void {
    this.#objects = new SnapshotObjects(this.#parts);
    this.#sweepAfter(0);
  }

  /** See `SnapshotTier` of the contract. */
  async bring(
    wanted: SnapshotFile & { readonly evaluateMs: number | null },
    signal: AbortSignal,
  ): Promise<boolean> {
    const { clock, s3, rate, health, report } = this.#parts;
    const isOff = this.#objects === null || health.isResting;
    if (isOff || !FILE.test(wanted.file) || !this.knows(wanted.name)) return false;
    const startedMs = clock.monotonicMs();
    const object = objectOf(wanted);
    const { bytes, evaluateMs } = wanted;
    const ask = { object, path: join(this.#parts.folder, wanted.file), bytes, evaluateMs };
    const stop = AbortSignal.any([signal, this.#stop.signal]);
    const fetched = await fetchSnapshot({ s3, clock, rate }, ask, stop);
    this.#note(fetched);
    const { outcome } = fetched;
    const durationMs = clock.monotonicMs() - startedMs;
    report({ type: 'snapshot', outcome, bytes: fetched.bytes, durationMs });
    if (outcome === 'fetched') this.#objects?.used(object);
    return outcome === 'fetched';
  }

  /** As far as is known without asking the bucket. */
  has(snapshot: Pick<SnapshotFile, 'name' | 'fingerprint'>): boolean {
    return this.#objects?.isKept(objectOf(snapshot)) ?? false;
  }

  #note({ outcome, cause }: Fetched): void {
    const { health } = this.#parts;
    if (outcome === 'failed') health.failed(cause);
    else if (outcome === 'fetched' || outcome === 'missing') health.answered();
  }

  kept(file: SnapshotFile): void {
    if (!FILE.test(file.file) || this.#waiting.size >= limits.bucketSendsWaitingMax) return;
    this.#waiting.set(objectOf(file), file);
    this.#send();
  }

  /** What was there is removed, and what is evaluated in its place is sent. */
  damaged(file: SnapshotFile): void {
    const { report } = this.#parts;
    report({ type: 'snapshot', outcome: 'damaged', bytes: file.bytes, durationMs: 0 });
    this.#remove((objects) => objects.remove(objectOf(file)));
  }

  forget(name: string): void {
    for (const [object, file] of this.#waiting)
      if (file.name === name) this.#waiting.delete(object);
    this.#remove((objects) => objects.forget(name));
  }

  #remove(act: (objects: SnapshotObjects) => Promise<void>): void {
    this.#removals = this.#removals.then(() => this.#try(act)).then(() => {});
  }

  /** What is half sent is sent anew when it is used again. A bucket that is silent keeps nobody. */
  async stop(): Promise<void> {
    this.#stop.abort();
    this.#objects = null;
    this.#ownerOf = () => null;
    this.#cancelSweep();
    this.#waiting.clear();
    let cancel = () => {};
    const late = new Promise<void>((resolve) => {
      cancel = this.#parts.clock.after(limits.bucketStopMsMax, resolve);
    });
    await Promise.race([late, Promise.all([this.#sends, this.#sweep, this.#removals])]);
    cancel();
  }

  /** @returns whether it was done; where it was not, a sweep makes up for it. */
  async #try(act: (objects: SnapshotObjects) => Promise<void>): Promise<boolean> {
    if (this.#objects === null || this.#stop.signal.aborted) return false;
    const { health } = this.#parts;
    try {
      await act(this.#objects);
      health.answered();
      return true;
    } catch (cause) {
      health.failed(cause);
      this.#sweepAfter(limits.bucketSweepRetryMs);
      return false;
    }
  }

  #sweepAfter(ms: number): void {
    const { clock } = this.#parts;
    this.#cancelSweep();
    this.#cancelSweep = clock.after(ms, () => {
      this.#sweep = this.#sweep.then(async () => {
        const isDone = await this.#try(async (objects) => await objects.sweep());
        if (isDone) this.#sweepAfter(limits.bucketSweepMs);
        this.#send();
      });
    });
  }

  /** One at a time: nobody waits for it. */
  #send(): void {
    if (this.#objects === null || this.#sends !== null || this.#stop.signal.aborted) return;
    this.#sends = this.#sendAll(this.#objects).finally(() => {
      this.#sends = null;
    });
  }

  async #sendAll(objects: SnapshotObjects): Promise<void> {
    const { health, inTurn } = this.#parts;
    for (const [object, file] of this.#waiting) {
      await this.#removals;
      if (health.isResting) return this.#sweepAfter(limits.bucketRetryMs);
      this.#waiting.delete(object);
      try {
        await inTurn(() => this.#sendOne(objects, object, file));
      } catch (cause) {
        // The engine may have removed it meanwhile, which is no fault of the bucket.
        if (cause instanceof Unwanted || codeOf(cause) === 'ENOENT') continue;
        if (this.#stop.signal.aborted) return;
        health.failed(cause);
        if (!health.isDown) continue;
        this.#waiting.set(object, file);
        this.#sweepAfter(limits.bucketSweepRetryMs);
        return;
      }
    }
  }

  async #sendOne(objects: SnapshotObjects, object: string, file: SnapshotFile): Promise<void> {
    const { s3, folder, clock, report } = this.#parts;
    const { name, bytes } = file;
    const owner = this.#ownerOf(name);
    if (owner === null) return;
    if (objects.has(object, bytes)) return objects.used(object);
    const startedMs = clock.monotonicMs();
    const flags = constants.O_RDONLY | constants.O_NOFOLLOW;
    const source = await open(join(folder, file.file), flags);
    const ended = objects.sending(object);
    try {
      const there = await s3.bytesOf(object);
      if (there === null || there !== bytes) {
        if (!(await objects.makeRoom(owner, bytes))) return;
        if (there !== null) await s3.remove(object);
        await this.#pour(source, object, name);
        const durationMs = clock.monotonicMs() - startedMs;
        report({ type: 'snapshot', outcome: 'sent', bytes, durationMs });
      }
      objects.add(object, name, owner, bytes);
      if (this.#stop.signal.aborted) return;
      // Its last cache was deleted on the way.
      if (!this.knows(name)) await objects.remove(object);
      this.#parts.health.answered();
    } finally {
      ended();
      await source.close();
    }
  }

  async #pour(source: FileHandle, object: string, name: string): Promise<void> {
    const { s3, held } = this.#parts;
    const writer = new S3Writer({ s3, name: object, held });
    const wanted: BlobWriter = {
      get bytes() {
        return writer.bytes;
      },
      write: async (piece) => {
        if (this.#stop.signal.aborted || !this.knows(name)) throw new Unwanted();
        await writer.write(piece);
      },
      keep: (as) => writer.keep(as),
      discard: () => writer.discard(),
    };
    try {
      await poured(source, wanted, object);
    } catch (cause) {
      // Another node has sent the same meanwhile.
      if (codeOf(cause) !== 'EEXIST') throw cause;
    }
  }
}

class Unwanted extends Error {}
