/**
 * Owns what a request goes on from: where it is kept, how many bytes it has, and its read when a thread has a turn for it.
 * It must never bring more of it into memory than a body may have, nor anything before that turn.
 */
import { invalid } from '../errors.js';
import { loopTurns } from '../fairness/loop-turns.js';
import { limits } from '../limits/index.js';
import type { GoesOnFrom, StoredEarlier } from '../protocol/goes-on.js';
import { type KeptParts, partOf, type StoredPart } from '../protocol/responses-items.js';
import type { Conversations } from './conversations.js';
import type { Responses } from './responses.js';

export interface EarlierSources {
  readonly responses: Responses;
  readonly conversations: Conversations;
}

/** A response that no record keeps, with all before it that none keeps either. */
export interface LastResponse {
  readonly id: string;
  /** A record that the oldest of them goes on from. */
  readonly previous: string | null;
  readonly parts: readonly StoredPart[];
  readonly bytes: number;
}

/**
 * @param last what the connection remembers.
 * @throws ApiError for what is not there, and for more bytes than a body may have.
 */
export async function findEarlier(
  { responses, conversations }: EarlierSources,
  owner: string,
  { response, conversation, references }: GoesOnFrom,
  last: LastResponse | null = null,
): Promise<StoredEarlier> {
  const room = new Room();
  const before: KeptParts[] = [];
  if (conversation !== null) {
    conversations.assertRoom(owner, conversation, 'conversation');
    before.push(room.taken(conversations.kept(owner, conversation), 'conversation'));
  } else if (response !== null) {
    const param = 'previous_response_id';
    const take = (bytes: number) => room.take(bytes, param);
    const isLast = last !== null && response === last.id;
    const kept = isLast ? last.previous : response;
    const chain = kept === null ? [] : await responses.chain(owner, kept, param, take);
    before.push(...chain.toReversed().map((record) => responses.kept(record)));
    if (isLast) before.push(room.taken({ bytes: last.bytes, read: () => last.parts }, param));
  }
  const referenced: KeptParts[] = [];
  for (const of of new Set(references.flatMap((id) => partOf(id) ?? []))) {
    await loopTurns.take(owner);
    const record = responses.find(owner, of);
    const kept = record === null ? conversations.find(owner, of) : responses.kept(record);
    if (kept !== null) referenced.push(room.taken(kept, 'input'));
  }
  const read = (all: readonly KeptParts[]) => all.flatMap((kept) => kept.read());
  return {
    bytes: room.bytes,
    read: () => ({ before: read(before), referenced: read(referenced) }),
  };
}

/** Of all that one request brings back. */
class Room {
  #bytes = 0;

  get bytes(): number {
    return this.#bytes;
  }

  taken(kept: KeptParts, param: string): KeptParts {
    this.take(kept.bytes, param);
    return kept;
  }

  take(bytes: number, param: string): void {
    this.#bytes += bytes;
    const { bodyBytesMax } = limits;
    if (this.#bytes <= bodyBytesMax) return;
    throw invalid(
      `${param} brings back ${this.#bytes} bytes or more of kept items, and one request may bring back at most ${bodyBytesMax}`,
      param,
    );
  }
}
