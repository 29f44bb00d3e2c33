/**
 * Owns the search for stop strings in text that comes in pieces, and the text that may be shown meanwhile.
 * It must never release a character that may still belong to a stop string.
 */

export interface StopStep {
  /** Text that is safe to show now. */
  readonly text: string;
  /** The stop string that was completed; nothing after it is read any more. */
  readonly matched: string | null;
  /** Text after the match. */
  readonly rest: string;
}

export class StopStrings {
  #held = '';

  constructor(readonly stops: readonly string[]) {}

  push(text: string): StopStep {
    if (this.stops.length === 0) return { text, matched: null, rest: '' };
    const all = this.#held + text;
    const match = earliestEnd(all, this.stops);
    if (match !== null) {
      this.#held = '';
      return { text: all.slice(0, match.start), matched: match.stop, rest: all.slice(match.end) };
    }
    const safe = all.length - openedLength(all, this.stops);
    this.#held = all.slice(safe);
    return { text: all.slice(0, safe), matched: null, rest: '' };
  }

  /** UTF-16 units that may still become a stop string. */
  get heldLength(): number {
    return this.#held.length;
  }

  /** The text that was held back; at the end it is no stop string. */
  end(): string {
    const held = this.#held;
    this.#held = '';
    return held;
  }
}

interface Match {
  readonly stop: string;
  readonly start: number;
  readonly end: number;
}

/** The earliest end, then the earliest start, so that the cut does not depend on the pieces. */
function earliestEnd(text: string, stops: readonly string[]): Match | null {
  let best: Match | null = null;
  for (const stop of stops) {
    const start = text.indexOf(stop);
    if (start < 0) continue;
    const end = start + stop.length;
    if (best === null || end < best.end || (end === best.end && start < best.start)) {
      best = { stop, start, end };
    }
  }
  return best;
}

/** Length of the longest end of `text` that begins a stop string. */
function openedLength(text: string, stops: readonly string[]): number {
  let held = 0;
  for (const stop of stops) {
    for (let length = Math.min(stop.length - 1, text.length); length > held; length--) {
      if (text.endsWith(stop.slice(0, length))) held = length;
    }
  }
  return held;
}
