/**
 * Owns each kind of a parsing thread's work: parse, check, canonicalise, render and write down large bodies.
 * It must never hold anything between two tasks but templates, nor know who else waits.
 */
import { toErrorValue } from '../errors.js';
import { KEY_TEXT_LENGTH_MAX } from '../pool/token-memory.js';
import {
  beginsWithCache,
  cacheMessage,
  checkBesideCache,
  parseCachedChat,
} from '../protocol/cached-chat.js';
import {
  cacheContentJson,
  factsOf,
  parseCacheCreate,
  parseCacheUpdate,
  readCacheContent,
} from '../protocol/caching.js';
import { type ChatRequest, parseChatRequest, settingsOf } from '../protocol/chat.js';
import { parseEstimateRequest } from '../protocol/estimate.js';
import { parseJson } from '../protocol/json.js';
import { parseTagBind } from '../protocol/tags.js';
import { chatPrompt } from '../rules/chat-prompt.js';
import { ChatTemplate } from '../rules/chat-template.js';
import { imageSizeOfDataUrl } from '../rules/image-tokens.js';
import {
  beginsWith,
  type CanonicalPrefix,
  canonicalPrefix,
  missReason,
  prefixChain,
} from '../rules/prefix.js';
import type { PromptSegment } from '../rules/prompt.js';
import { inputTexts } from '../rules/review-texts.js';
import { TokenFloor } from '../rules/token-floor.js';
import { ownBytes, packed, packedTexts, unpacked } from './packing.js';
import { decodeBody, encodeBody } from './stored-body.js';
import type { TalkSource } from './talk-source.js';
import type {
  OwnBytes,
  PackedSegment,
  PackedTalk,
  ParseKind,
  ParseTask,
  ParseWork,
  TemplateRef,
} from './tasks.js';

type Works = { [Kind in ParseKind]: (ask: ParseWork[Kind]['ask']) => ParseWork[Kind]['answer'] };

const works: Works = {
  chat({ body, compares }) {
    const value = parsedBody(body);
    if (!beginsWithCache(value))
      return { type: 'plain', ...packedChat(parseChatRequest(value), compares) };
    const { model } = checkBesideCache(value);
    return { type: 'cached', model, options: optionsOf(value), body };
  },
  join({ body, stored }) {
    const { messages, tools } = decodeBody(stored);
    const parsed = (texts: readonly string[]) => texts.map((text) => JSON.parse(text));
    const cached = { messages: parsed(messages), tools: parsed(tools) };
    return packedChat(parseCachedChat(parsedBody(body), cached), true);
  },
  estimate({ body }) {
    const { model, ...source } = parseEstimateRequest(parsedBody(body));
    return { model, talk: { content: packed(source satisfies TalkSource), canonical: null } };
  },
  create({ body, owner }) {
    const creation = parseCacheCreate(parsedBody(body));
    const { family, messages, tools, wireMessages, wireTools } = creation;
    const texts = canonicalPrefix(wireMessages, wireTools);
    const hash = prefixChain({ owner, family }, texts).at(-1);
    if (hash === undefined) throw new Error('a chain without a link');
    const content = packed({ messages, tools, partial: false } satisfies TalkSource);
    const stored = ownBytes(encodeBody(texts));
    return { facts: factsOf(creation), talk: { content, canonical: null }, stored, hash };
  },
  update: ({ body }) => parseCacheUpdate(parsedBody(body)),
  tag: ({ body }) => parseTagBind(parsedBody(body)),
  open({ stored }) {
    const content = readCacheContent(decodeBody(stored));
    const talk = {
      content: packed({ ...content, partial: false } satisfies TalkSource),
      canonical: null,
    };
    return { talk, messages: content.messages.length };
  },
  render({ talk, templates, prefix, images }) {
    const prompt = chatPrompt(
      unpacked<TalkSource>(talk.content),
      images ? imageSizeOfDataUrl : null,
    );
    const input = prefix ? { ...prompt, generationPrompt: false } : prompt;
    return templates.map((ref) => {
      const { template, floor } = opened(ref);
      const segments = template.render(input);
      return { segments: packedSegments(segments), tokensMin: floor.tokensMin(segments) };
    });
  },
  compare({ talk, stored, owner, family, hash }) {
    const texts = canonicalOf(talk);
    const cached = decodeBody(stored);
    if (beginsWith(prefixChain({ owner, family }, texts), texts, hash, cached)) return null;
    return missReason(texts, cached) ?? 'the prefix has another hash';
  },
  chain: ({ talk, owner, family }) => prefixChain({ owner, family }, canonicalOf(talk)),
  texts({ talk }) {
    const { messages, tools } = unpacked<TalkSource>(talk.content);
    return packed(inputTexts(messages, tools));
  },
  show({ caches, isList }) {
    const items = caches.map(
      ({ head, stored }) => `${head}${cacheContentJson(decodeBody(stored))}}`,
    );
    return ownBytes(
      Buffer.from(isList ? `{"object":"list","data":[${items.join(',')}]}` : items.join('')),
    );
  },
};

/** @throws ApiError for what is wrong with the request. */
export function work({ kind, ask }: ParseTask): ParseWork[ParseKind]['answer'] {
  // The pair of kind and question comes from one task, which a table of functions cannot say.
  return (works[kind] as (ask: unknown) => ParseWork[ParseKind]['answer'])(ask);
}

function parsedBody(body: OwnBytes): unknown {
  return parseJson(Buffer.from(body.buffer, body.byteOffset, body.byteLength));
}

function packedChat(request: ChatRequest, compares: boolean) {
  const { messages, tools, partial, wireMessages, wireTools } = request;
  const content = packed({ messages, tools, partial } satisfies TalkSource);
  const canonical = compares ? packed(canonicalPrefix(wireMessages, wireTools)) : null;
  return { settings: settingsOf(request), talk: { content, canonical } };
}

function optionsOf(value: unknown) {
  try {
    return cacheMessage(value);
  } catch (cause) {
    return { fault: toErrorValue(cause) };
  }
}

function canonicalOf({ canonical }: PackedTalk): CanonicalPrefix {
  if (canonical === null) throw new Error('a conversation was packed without its canonical form');
  return unpacked<CanonicalPrefix>(canonical);
}

interface Opened {
  readonly template: ChatTemplate;
  readonly floor: TokenFloor;
}

/** As many as models are configured. */
const templates = new Map<string, Opened>();

function opened({ key, source, floor }: TemplateRef): Opened {
  const known = templates.get(key) ?? {
    template: new ChatTemplate(source),
    floor: new TokenFloor(floor),
  };
  templates.set(key, known);
  return known;
}

/** A text that is its own key in the memory of tokens crosses as it is. */
function packedSegments(segments: readonly PromptSegment[]): PackedSegment[] {
  const isLong = (segment: PromptSegment): segment is { text: string } =>
    'text' in segment && segment.text.length > KEY_TEXT_LENGTH_MAX;
  const texts = packedTexts(segments.filter(isLong).map(({ text }) => text));
  let next = 0;
  return segments.map((segment) => {
    if (!isLong(segment)) return segment;
    const text = texts[next++];
    return text === undefined ? segment : { packed: text };
  });
}
