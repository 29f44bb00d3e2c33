/**
 * Owns the contract of a second place for kept prefixes, behind the disk of the engine that keeps them as files.
 * It must import nothing.
 */

/** A kept prefix as a file in the folder `snapshots` of the engine's `stateDir`. */
export interface SnapshotFile {
  /** See `SnapshotRef.name`. */
  readonly name: string;
  /** See `EngineModel.fingerprint`: under another one the state is of no use. */
  readonly fingerprint: string;
  /** Name within the folder. */
  readonly file: string;
  readonly bytes: number;
}

/** `bytes`: about so many are expected. */
export interface WantedSnapshot extends SnapshotFile {
  /** What evaluating the prefix takes at the rate that was measured last; null: none was measured yet. */
  readonly evaluateMs: number | null;
}

/** What the service offers the engine. It moves bytes; whether they are what they are called the engine finds out. */
export interface SnapshotTier {
  /**
   * Resolves with true once the file is there, down to the disk; with false, and no file there, where there is none, where
   * evaluating is expected to be quicker, and after `signal`. It never rejects, and takes about `evaluateMs` at most.
   */
  bring(wanted: WantedSnapshot, signal: AbortSignal): Promise<boolean>;
  /** The file is whole, and will not change. */
  kept(file: SnapshotFile): void;
  /** What was brought is not what it is called. */
  damaged(file: SnapshotFile): void;
}
