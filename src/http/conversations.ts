/**
 * Owns the routes of conversations and of their items.
 * It must never tell of a conversation to anybody but its owner.
 */
import { limits } from '../limits/index.js';
import type { ChangedPart } from '../parsing/kept.js';
import type { Parser } from '../parsing/parser.js';
import type { ConversationBodyKind } from '../parsing/tasks.js';
import { freeBytes } from '../pool/memory.js';
import type { PageQuery } from '../protocol/page-query.js';
import { conversationShown, parseItemQuery } from '../protocol/responses-lists.js';
import type { Conversations } from '../responses/conversations.js';
import type { ConversationRecord } from '../rules/response-state.js';
import type { Exchange } from './exchange.js';
import type { Caller, Gate } from './gate.js';
import { replyKept } from './kept.js';
import { type Route, route } from './router.js';

const entrance = { api: 'chat' } as const;

export interface ConversationParts {
  readonly gate: Gate;
  readonly conversations: Conversations;
  readonly parser: Parser;
}

export function conversationRoutes(parts: ConversationParts): Route[] {
  const { gate, conversations } = parts;
  return [
    route(
      'POST',
      '/v1/conversations',
      gate.guardFree(entrance, (exchange, caller) => create(parts, exchange, caller)),
    ),
    route(
      'GET',
      '/v1/conversations/:id',
      gate.guardFree(entrance, async (exchange, { user }, { id }) => {
        exchange.replyJson(200, shown(conversations.get(user, id)));
      }),
    ),
    route(
      'POST',
      '/v1/conversations/:id',
      gate.guardFree(entrance, async (exchange, { user }, { id }) => {
        const { metadata } = await bodyOf(parts, exchange, user, 'update', id);
        exchange.replyJson(200, shown(await conversations.describe(user, id, metadata ?? {})));
      }),
    ),
    route(
      'DELETE',
      '/v1/conversations/:id',
      gate.guardFree(entrance, async (exchange, { user }, { id }) => {
        await conversations.delete(user, id);
        exchange.replyJson(200, { id, object: 'conversation.deleted', deleted: true });
      }),
    ),
    ...itemRoutes(parts),
  ];
}

function itemRoutes(parts: ConversationParts): Route[] {
  const { gate, conversations, parser } = parts;
  return [
    route(
      'GET',
      '/v1/conversations/:id/items',
      gate.guardFree(entrance, async (exchange, { user: owner }, { id }) => {
        const query = parseItemQuery(exchange.query);
        const kept = conversations.kept(owner, id);
        await replyKept(exchange, { parser, owner }, kept, { type: 'page', query });
      }),
    ),
    route(
      'POST',
      '/v1/conversations/:id/items',
      gate.guardFree(entrance, (exchange, caller, { id }) => add(parts, exchange, caller, id)),
    ),
    route(
      'GET',
      '/v1/conversations/:id/items/:item',
      gate.guardFree(entrance, async (exchange, { user: owner }, { id, item }) => {
        const kept = conversations.kept(owner, id);
        await replyKept(exchange, { parser, owner }, kept, { type: 'item', id: item });
      }),
    ),
    route(
      'DELETE',
      '/v1/conversations/:id/items/:item',
      gate.guardFree(entrance, async (exchange, { user }, { id, item }) => {
        exchange.replyJson(200, shown(await removed(parts, exchange, user, [id, item])));
      }),
    ),
  ];
}

async function create(
  parts: ConversationParts,
  exchange: Exchange,
  { user }: Caller,
): Promise<void> {
  const { conversations } = parts;
  const id = conversations.newId();
  const { metadata, items } = await bodyOf(parts, exchange, user, 'create', id);
  try {
    const record = await conversations.create(user, id, metadata ?? {}, items);
    exchange.replyJson(200, shown(record));
  } finally {
    if (items !== null) freeBytes(items);
  }
}

/** All that one addition may have. */
const WHOLE: PageQuery = {
  limit: limits.conversationAddMax,
  order: 'asc',
  after: null,
  before: null,
  metadata: [],
};

async function add(
  parts: ConversationParts,
  exchange: Exchange,
  { user: owner }: Caller,
  id: string,
): Promise<void> {
  const { conversations, parser } = parts;
  conversations.assertRoom(owner, id, 'items');
  const { items: bytes } = await bodyOf(parts, exchange, owner, 'add', id);
  if (bytes === null) throw new Error('an addition without items');
  try {
    const record = await conversations.append(owner, id, bytes, false);
    const number = record.next - 1;
    const kept = { bytes: bytes.byteLength, read: () => [{ number, bytes }] };
    await replyKept(exchange, { parser, owner }, kept, { type: 'page', query: WHOLE });
  } finally {
    freeBytes(bytes);
  }
}

async function removed(
  { conversations, parser }: ConversationParts,
  exchange: Exchange,
  user: string,
  [id, item]: readonly [id: string, item: string],
): Promise<ConversationRecord> {
  const written: { part: ChangedPart | null } = { part: null };
  try {
    return await conversations.remove(user, id, item, async (kept) => {
      if (parser.isFar(kept.bytes)) exchange.hold(kept.bytes);
      written.part = await parser.kept.without(user, kept, item);
      return written.part;
    });
  } finally {
    if (written.part !== null) freeBytes(written.part.value);
  }
}

async function bodyOf(
  { parser }: ConversationParts,
  exchange: Exchange,
  user: string,
  kind: ConversationBodyKind,
  id: string,
) {
  const bytes = await exchange.body();
  const of = id.slice(id.indexOf('_') + 1);
  const body = await parser.kept.body(user, kind, of, bytes);
  exchange.hold(body.items?.byteLength ?? 0);
  return body;
}

function shown({ id, createdS, metadata }: ConversationRecord) {
  return conversationShown(id, createdS, metadata);
}
