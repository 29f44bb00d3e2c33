/**
 * Owns the list of questions, in the order in which they are asked.
 * It must never hold a bound: each question names its own.
 */
import { question as acknowledgedWrites } from './acknowledged-writes.js';
import { question as cacheCreate } from './cache-create.js';
import { question as cacheExact } from './cache-exact.js';
import { question as cacheHit } from './cache-hit.js';
import { question as cacheLookup } from './cache-lookup.js';
import { question as cacheMany } from './cache-many.js';
import { question as cacheRoundRobin } from './cache-round-robin.js';
import { question as chatEcho } from './chat-echo.js';
import { question as cookbook } from './cookbook.js';
import { question as derivedCaches } from './derived-caches.js';
import { question as draft } from './draft.js';
import { question as engineTokens } from './engine-tokens.js';
import { question as getModel } from './get-model.js';
import { question as hostileText } from './hostile-text.js';
import { question as idleMemory } from './idle-memory.js';
import { question as instantUpstream } from './instant-upstream.js';
import { question as llamaServerFirstText } from './llama-server-first-text.js';
import { question as llamaServerShortStreams } from './llama-server-short-streams.js';
import { question as llamaServerStreams } from './llama-server-streams.js';
import { question as ocrPages } from './ocr-pages.js';
import { question as pdfText } from './pdf-text.js';
import { question as processes } from './processes.js';
import { question as promotion } from './promotion.js';
import { question as proxyOverhead } from './proxy-overhead.js';
import { question as speculation } from './speculation.js';
import { question as streamChunks } from './stream-chunks.js';
import type { Question } from './support/question.js';
import { question as tokenCount } from './token-count.js';
import { question as upload } from './upload.js';
import { question as wordsFound } from './words-found.js';

export const questions: readonly Question[] = [
  engineTokens,
  llamaServerFirstText,
  llamaServerStreams,
  llamaServerShortStreams,
  cacheHit,
  cacheRoundRobin,
  cacheExact,
  derivedCaches,
  promotion,
  speculation,
  draft,
  cookbook,
  chatEcho,
  processes,
  getModel,
  streamChunks,
  proxyOverhead,
  instantUpstream,
  tokenCount,
  hostileText,
  cacheLookup,
  cacheCreate,
  cacheMany,
  acknowledgedWrites,
  pdfText,
  ocrPages,
  wordsFound,
  upload,
  idleMemory,
];
