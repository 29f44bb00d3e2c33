/**
 * Owns the contract of room on the disk, for all that writes bytes into the data folder.
 * It must never know where the room is measured.
 */

/** Begins a write of so many bytes where the disk has room for it. */
export type TakeRoom = (bytes: number, write: () => Promise<void>) => Promise<void>;

/** Where nobody measures it. */
export const anyRoom: TakeRoom = (_bytes, write) => write();
