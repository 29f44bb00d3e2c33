/**
 * Owns the answers that show kept items: one item, a page of them, a response as it was.
 * It must never hold more of them than its account may.
 */
import type { Parser } from '../parsing/parser.js';
import type { KeptQuestion } from '../parsing/tasks.js';
import type { KeptParts } from '../protocol/responses-items.js';
import { notFound } from '../responses/conversations.js';
import type { Exchange } from './exchange.js';

/** @throws ApiError for an item that is not there. */
export async function replyKept(
  exchange: Exchange,
  { parser, owner }: { readonly parser: Parser; readonly owner: string },
  kept: KeptParts,
  question: KeptQuestion,
): Promise<void> {
  const isFar = parser.isFar(kept.bytes);
  if (isFar) exchange.hold(kept.bytes);
  const json = await parser.kept.shown(owner, kept, question);
  if (json === null) throw notFound('item', question.type === 'item' ? question.id : '');
  // From here on the reply counts by itself, as long as it is sent.
  if (isFar) exchange.hold(0);
  exchange.reply(200, json);
}
