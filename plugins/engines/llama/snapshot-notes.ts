/**
 * Owns what is remembered of snapshots beside their files: which are to stay in memory, which nobody asked for, how often
 * each was used. It must never be needed to trust a file: without it, snapshots are merely ordinary ones.
 */
import { open, readFile, rename } from 'node:fs/promises';
import { limits } from 'preface/plugin';

interface Marks {
  readonly pin: boolean;
  readonly spare: boolean;
}

interface Saved {
  readonly marks: readonly (readonly [string, Marks])[];
  readonly uses: readonly (readonly [string, number])[];
}

const PLAIN: Marks = { pin: false, spare: false };
const NONE: Saved = { marks: [], uses: [] };
/** What is left of earlier uses at each start, so that a prefix of last week makes room for one of today. */
const REMEMBERED = 0.5;

export class SnapshotNotes {
  /** By name: a pin holds for every model. */
  readonly #marks: Map<string, Marks>;
  /** By name and fingerprint. */
  readonly #uses: Map<string, number>;
  #timer: NodeJS.Timeout | null = null;
  #saving: Promise<void> = Promise.resolve();

  private constructor(
    private readonly path: string,
    { marks, uses }: Saved,
  ) {
    this.#marks = new Map(marks);
    this.#uses = new Map(uses.map(([key, count]) => [key, count * REMEMBERED]));
  }

  static async open(path: string): Promise<SnapshotNotes> {
    try {
      return new SnapshotNotes(path, JSON.parse(await readFile(path, 'utf8')) as Saved);
    } catch {
      return new SnapshotNotes(path, NONE);
    }
  }

  of(name: string): Marks {
    return this.#marks.get(name) ?? PLAIN;
  }

  /** On the disk once it resolves. */
  async mark(name: string, change: Partial<Marks>): Promise<void> {
    const before = this.of(name);
    const marks = { ...before, ...change };
    if (marks.pin === before.pin && marks.spare === before.spare) return;
    if (marks.pin || marks.spare) this.#marks.set(name, marks);
    else this.#marks.delete(name);
    await this.save();
  }

  used(key: string): void {
    this.#uses.set(key, this.usesOf(key) + 1);
    this.#timer ??= setTimeout(() => void this.save(), limits.snapshotNotesMs).unref();
  }

  usesOf(key: string): number {
    return this.#uses.get(key) ?? 0;
  }

  forgetUses(key: string): void {
    this.#uses.delete(key);
  }

  async forget(name: string): Promise<void> {
    await this.mark(name, PLAIN);
  }

  /** What cannot be written is not known at the next start, and nothing else. */
  save(): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#saving = this.#saving.then(() => this.#write()).catch(() => {});
    return this.#saving;
  }

  async #write(): Promise<void> {
    const saved: Saved = { marks: [...this.#marks], uses: [...this.#uses] };
    const temporary = `${this.path}.tmp`;
    const file = await open(temporary, 'w', 0o600);
    try {
      await file.writeFile(JSON.stringify(saved));
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, this.path);
  }
}
