/**
 * Owns which prefilled prefixes are in a bucket, their bound on bytes, and the removal of those that no record wants.
 * It must never let an owner with many of them take the last place of one with few.
 */
import type { ListedObject, S3 } from './s3.js';

/** Whose a snapshot is, by its name; null: no record wants it. */
export type OwnerOf = (name: string) => string | null;

interface Kept {
  readonly name: string;
  readonly owner: string;
  readonly bytes: number;
}

/** What their names begin with, in the place of a shard. */
export const SNAPSHOTS = 'snapshots/';
const NAME = /^snapshots\/([a-z0-9]{1,64})\.[a-z0-9]{1,64}$/;

/** The name of the prefix holds its owner; the fingerprint keeps those apart that other machines made. */
export function objectOf({ name, fingerprint }: { name: string; fingerprint: string }): string {
  const object = `${SNAPSHOTS}${name}.${fingerprint}`;
  if (NAME.test(object)) return object;
  throw new Error(`a snapshot cannot be called ${JSON.stringify(object)}`);
}

/** The name of the prefix that an object is of; null for another object. */
export function snapshotOf(object: string): string | null {
  return NAME.exec(object)?.[1] ?? null;
}

export interface SnapshotObjectsParts {
  readonly s3: S3;
  readonly bytesMax: number;
  readonly objectsMax: number;
  readonly ownerOf: OwnerOf;
}

export class SnapshotObjects {
  /** The longest unused first. */
  readonly #kept = new Map<string, Kept>();
  #bytes = 0;
  readonly #sending = new Set<string>();

  constructor(private readonly parts: SnapshotObjectsParts) {}

  get bytes(): number {
    return this.#bytes;
  }

  get count(): number {
    return this.#kept.size;
  }

  isKept(object: string): boolean {
    return this.#kept.has(object);
  }

  has(object: string, bytes: number): boolean {
    return this.#kept.get(object)?.bytes === bytes;
  }

  used(object: string): void {
    const kept = this.#kept.get(object);
    if (kept === undefined) return;
    this.#kept.delete(object);
    this.#kept.set(object, kept);
  }

  /** While it is sent, a sweep leaves its parts alone. @returns what ends that. */
  sending(object: string): () => void {
    this.#sending.add(object);
    return () => this.#sending.delete(object);
  }

  add(object: string, name: string, owner: string, bytes: number): void {
    this.#drop(object);
    this.#kept.set(object, { name, owner, bytes });
    this.#bytes += bytes;
  }

  /** Removes others until so many bytes more find room. @returns false where they never do. */
  async makeRoom(owner: string, bytes: number): Promise<boolean> {
    if (bytes > this.parts.bytesMax) return false;
    while (this.#isFull(bytes)) {
      const object = this.#next(owner, bytes);
      if (object === null) return false;
      await this.remove(object);
    }
    return true;
  }

  #isFull(bytes: number): boolean {
    const { bytesMax, objectsMax } = this.parts;
    return this.#bytes + bytes > bytesMax || this.count >= objectsMax;
  }

  /** The longest unused of the owner who has the most, with what is to come. */
  #next(owner: string, bytes: number): string | null {
    const held = new Map<string, number>([[owner, bytes]]);
    for (const kept of this.#kept.values())
      held.set(kept.owner, (held.get(kept.owner) ?? 0) + kept.bytes);
    let [most, mostBytes] = [owner, -1];
    for (const [each, sum] of held) {
      const isOwnOnly = each === owner && sum === bytes;
      if (sum > mostBytes && !isOwnOnly) [most, mostBytes] = [each, sum];
    }
    for (const [object, kept] of this.#kept) if (kept.owner === most) return object;
    return null;
  }

  async remove(object: string): Promise<void> {
    await this.parts.s3.remove(object);
    this.#drop(object);
  }

  #drop(object: string): void {
    this.#bytes -= this.#kept.get(object)?.bytes ?? 0;
    this.#kept.delete(object);
  }

  /** Of all fingerprints, as far as is known here. */
  async forget(name: string): Promise<void> {
    const objects = [...this.#kept].filter(([, kept]) => kept.name === name);
    for (const [object] of objects) await this.remove(object);
  }

  /** Looks at all of them: takes up what other runs and nodes left, removes what no record wants, and parts without an end. */
  async sweep(): Promise<void> {
    const { s3, ownerOf } = this.parts;
    const found: ListedObject[] = [];
    for await (const object of s3.list(SNAPSHOTS)) found.push(object);
    const names = new Set(found.map(({ name }) => name));
    for (const object of [...this.#kept.keys()])
      if (!names.has(object) && !this.#sending.has(object)) this.#drop(object);
    for (const { name: object, bytes } of found.sort((a, b) => a.writtenMs - b.writtenMs)) {
      const name = snapshotOf(object) ?? '';
      const owner = ownerOf(name);
      if (owner === null) await this.remove(object);
      else if (!this.has(object, bytes)) this.add(object, name, owner, bytes);
    }
    for (const { name, id } of await s3.openParts())
      if (name.startsWith(SNAPSHOTS) && !this.#sending.has(name)) await s3.abortParts(name, id);
    await this.makeRoom('', 0);
  }
}
