/**
 * Owns the cut of a conversation that may be cut to fit its model's window.
 * It must never cut one that fits, nor leave the answer without room.
 */
import { ApiError } from '../errors.js';
import type { Parser } from '../parsing/parser.js';
import type { Talk } from '../parsing/talk.js';
import type { ChatSettings } from '../protocol/chat.js';
import { withoutOldest } from '../rules/truncation.js';
import type { Catalog, ChatCaller } from './catalog.js';

/** Each round leaves out at least one message, and as much as the count before it asks for. */
const ROUNDS_MAX = 8;
/** Of the window, for the answer. */
const ANSWER_SHARE = 0.25;
/** Of the text, in the first round of a prompt that is too long to be counted; twice as much in each next one. */
const UNCOUNTED_SHARE = 0.1;

interface Fitting {
  readonly catalog: Catalog;
  readonly parser: Parser;
  readonly caller: ChatCaller;
  readonly request: ChatSettings;
}

/** @returns the conversation itself where it fits, or where nothing more can be left out. */
export async function fitted(parts: Fitting, talk: Talk): Promise<Talk> {
  let current = talk;
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const share = await shareBeyond(parts, current, round);
    if (share <= 0) break;
    const source = await current.source();
    const messages = withoutOldest(source.messages, share);
    if (messages === null) break;
    const images = current.takeImages();
    current.free();
    current = parts.parser.changed(parts.caller.user, { ...source, messages }, images);
  }
  return current;
}

/** How much of the prompt is too much; 0 for nothing. */
async function shareBeyond(
  { catalog, caller, request }: Fitting,
  talk: Talk,
  round: number,
): Promise<number> {
  const { maxTokens } = request;
  try {
    const { model, promptTokens } = await catalog.count(caller, request.model, talk, maxTokens);
    const room = model.window - Math.min(maxTokens ?? 0, Math.ceil(model.window * ANSWER_SHARE));
    return promptTokens <= room ? 0 : 1 - room / promptTokens;
  } catch (cause) {
    if (cause instanceof ApiError && cause.row === 'inputTooLong')
      return Math.min(1, UNCOUNTED_SHARE * 2 ** round);
    throw cause;
  }
}
