/**
 * Owns what is noticed of prompts that keep missing at one place: which place, how often, and what it cost today.
 * It must never compare the prompts of two owners, and must forget the oldest ones when its bounds are reached.
 */
import type { Clock } from '../clock.js';
import { limits } from '../limits/index.js';
import type { Advice } from '../protocol/advice.js';
import type { ChatMessage } from '../protocol/message.js';
import { commonLength, partingOf } from '../rules/parting.js';
import { commonUnits, textPlace } from '../rules/text-place.js';

export interface Examined {
  readonly owner: string;
  readonly family: string;
  readonly model: string;
  readonly ids: Uint32Array;
  textOf(ids: Uint32Array): string;
  /** As the client names a message: `messages[0].content`. */
  nameOf(message: number): string;
  messages(): readonly ChatMessage[] | Promise<readonly ChatMessage[]>;
}

interface Place {
  /** Ids in front of it. */
  at: number;
  /** Of this day alone. */
  day: number;
  requests: number;
  tokens: number;
  lastMs: number;
  isTold: boolean;
  found: Pick<Advice, 'model' | 'field' | 'message' | 'character'> | null;
}

/** The beginning of a prompt, and where later ones parted from it. */
interface Head {
  readonly family: string;
  ids: Uint32Array;
  place: Place | null;
}

/** What one request is noticed for. */
export class Diagnosis {
  constructor(
    private readonly place: Place,
    /** Tokens behind the place that were there before. */
    private readonly again: number,
    /** Said once a day for each place: printable ASCII. */
    readonly advice: string | null,
  ) {}

  /** What was reused from somewhere all the same cost nothing. */
  settle(promptTokens: number, reusedTokens: number): void {
    const { place } = this;
    place.tokens += Math.min(this.again, Math.max(0, promptTokens - reusedTokens));
  }
}

const DAY_MS = 24 * 60 * 60_000;

export class PrefixDoctor {
  /** The owner that came last is last. */
  readonly #owners = new Map<string, Head[]>();
  #bytes = 0;

  constructor(
    private readonly clock: Clock,
    private readonly log: (line: string) => void,
  ) {}

  /** Looks at a prompt that is about to run. @returns null where there is nothing to notice. */
  async examine(examined: Examined): Promise<Diagnosis | null> {
    const { owner, family } = examined;
    const ids = examined.ids.subarray(0, limits.adviceIdsMax);
    if (ids.length < limits.adviceTokensMin) return null;
    const heads = this.#headsOf(owner);
    const same = heads.find((head) => head.family === family && goesOn(head.ids, ids));
    if (same) {
      this.#replace(heads, same, ids);
      return null;
    }
    const parted = closest(heads, family, ids);
    if (parted === null) {
      this.#add(heads, { family, ids: ids.slice(), place: null });
      return null;
    }
    const { head, at, again } = parted;
    const place = this.#noted(head, at);
    const before = head.ids;
    this.#replace(heads, head, ids);
    const isNew =
      place.requests >= limits.adviceRequestsMin && place.tokens >= limits.adviceTokensMin;
    if (isNew && place.found === null) await this.#find(place, before, examined);
    const isTold = isNew && !place.isTold;
    place.isTold ||= isTold;
    return new Diagnosis(place, again, isTold ? this.#told(owner, place) : null);
  }

  /** What is known of an owner, the dearest first. */
  advices(owner: string): readonly Advice[] {
    const today = this.#day();
    const advices = (this.#owners.get(owner) ?? []).flatMap(({ place }): Advice[] => {
      if (place?.found == null || place.day !== today) return [];
      const { requests, tokens, lastMs } = place;
      return [{ ...place.found, requests, tokens, lastMs }];
    });
    return advices.sort((one, other) => other.tokens - one.tokens);
  }

  /** The owners of which something is known. */
  owners(): readonly string[] {
    return [...this.#owners.keys()];
  }

  #headsOf(owner: string): Head[] {
    const heads = this.#owners.get(owner) ?? [];
    this.#owners.delete(owner);
    this.#owners.set(owner, heads);
    return heads;
  }

  #add(heads: Head[], head: Head): void {
    heads.push(head);
    this.#bytes += head.ids.byteLength;
    if (heads.length > limits.adviceHeadsMax) this.#bytes -= heads.shift()?.ids.byteLength ?? 0;
    this.#bound(heads);
  }

  /** @param heads of the owner that came last, who stays. */
  #bound(heads: readonly Head[]): void {
    while (this.#owners.size > limits.adviceOwnersMax || this.#bytes > limits.adviceBytesMax) {
      const [oldest] = this.#owners;
      if (oldest === undefined || oldest[1] === heads) return;
      this.#owners.delete(oldest[0]);
      for (const { ids } of oldest[1]) this.#bytes -= ids.byteLength;
    }
  }

  #replace(heads: readonly Head[], head: Head, ids: Uint32Array): void {
    this.#bytes += ids.byteLength - head.ids.byteLength;
    head.ids = ids.slice();
    this.#bound(heads);
  }

  /** A place moves by a few tokens: `9:59` and `10:00` begin with other ones. */
  #noted(head: Head, at: number): Place {
    const day = this.#day();
    const known = head.place;
    const isNear = known !== null && Math.abs(known.at - at) <= limits.adviceGapMax;
    const place =
      isNear && known.day === day
        ? known
        : {
            at,
            day,
            requests: 0,
            tokens: 0,
            lastMs: 0,
            isTold: false,
            found: isNear ? known.found : null,
          };
    place.at = Math.min(place.at, at);
    place.requests += 1;
    place.lastMs = this.clock.nowMs();
    head.place = place;
    return place;
  }

  async #find(place: Place, before: Uint32Array, examined: Examined): Promise<void> {
    const { ids, model } = examined;
    const end = place.at + limits.adviceGapMax;
    const [old, text] = [before, ids].map((each) => examined.textOf(each.subarray(0, end)));
    const unit = commonUnits(old ?? '', text ?? '');
    const found = textPlace(text ?? '', unit, await examined.messages());
    const { message, character } = found ?? { message: null, character: null };
    const field = message === null ? 'the prompt' : examined.nameOf(message);
    place.found = { model, field, message, character };
  }

  #told(owner: string, { found, tokens }: Place): string | null {
    if (found === null) return null;
    const { field, character } = found;
    const where = character === null ? field : `${field} at character ${character}`;
    const advice = `${where} differs from request to request; ${tokens} tokens behind it were evaluated again today: move it behind what stays the same`;
    this.log(`prompts of ${owner}: ${advice}`);
    return advice;
  }

  #day(): number {
    return Math.floor(this.clock.nowMs() / DAY_MS);
  }
}

/** One prompt is the beginning of the other. */
function goesOn(before: Uint32Array, now: Uint32Array): boolean {
  return commonLength(before, 0, now, 0) === Math.min(before.length, now.length);
}

function closest(heads: readonly Head[], family: string, ids: Uint32Array) {
  const bounds = {
    gapMax: limits.adviceGapMax,
    runMin: limits.adviceRunMin,
    placesMax: limits.advicePlacesMax,
  };
  let best: { head: Head; at: number; again: number } | null = null;
  for (const head of heads) {
    if (head.family !== family) continue;
    const parting = partingOf(head.ids, ids, bounds);
    if (parting === null || parting.again < limits.adviceTokensMin) continue;
    if (parting.again > (best?.again ?? 0)) best = { head, ...parting };
  }
  return best;
}
