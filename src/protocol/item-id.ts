/**
 * Owns the form of the ids of what is listed: they sort in the order of creation, and say whose they are.
 * It must never make two alike; an id is no secret, since its owner is checked at each use.
 *
 * A list's cursor is a position: an id leads to its place also after its item is deleted. What an id says of its owner
 * lets nobody in: it only tells a cursor that was the owner's from one that never was.
 */
import { createHash } from 'node:crypto';
import type { NewBytes } from '../clock.js';
import { limits } from '../limits/index.js';
import { idLetters } from './id-letters.js';

const LETTERS = 36;
/** Milliseconds, until the year 2059. */
const TIME_LENGTH = 8;
/** Within the millisecond. */
const TURN_LENGTH = 2;
const TURN_MAX = LETTERS ** TURN_LENGTH - 1;
const OWNER_LENGTH = 4;
const HEAD_LENGTH = limits.itemIdLength - OWNER_LENGTH;

export class ItemIds {
  #lastMs = 0;
  #turn = 0;

  constructor(readonly newBytes: NewBytes) {}

  /**
   * The time stands first, so that new records also lie beside each other in the store and not each in a page of its
   * own. The six letters that follow are random.
   */
  next(owner: string, nowMs: number): string {
    const ms = Math.max(0, Math.trunc(nowMs));
    this.#turn = ms === this.#lastMs ? Math.min(this.#turn + 1, TURN_MAX) : 0;
    this.#lastMs = ms;
    const place = letters(ms, TIME_LENGTH) + letters(this.#turn, TURN_LENGTH);
    const head = place + idLetters(this.newBytes, HEAD_LENGTH - place.length);
    return head + ownerLetters(owner, head);
  }
}

/** When the id was made for this owner; null for one that never was. Ids of
 * earlier versions were random throughout and do not say it. */
export function createdMsOf(owner: string, id: string): number | null {
  if (id.length !== limits.itemIdLength || !/^[a-z0-9]+$/.test(id)) return null;
  const head = id.slice(0, HEAD_LENGTH);
  if (id.slice(HEAD_LENGTH) !== ownerLetters(owner, head)) return null;
  return Number.parseInt(id.slice(0, TIME_LENGTH), LETTERS);
}

function ownerLetters(owner: string, head: string): string {
  const hash = createHash('sha256').update(`${owner} ${head}`).digest();
  return letters(hash.readUIntBE(0, 6), OWNER_LENGTH);
}

function letters(value: number, length: number): string {
  return value.toString(LETTERS).padStart(length, '0').slice(-length);
}
