/**
 * Owns what a chat is to those who run it and write its answer down, whether it has one prompt or several.
 * It must never show how its prompts were made.
 */
import type { ChatSettings } from '../protocol/chat.js';
import type { AnswerHead, TokenLogprobs } from '../protocol/completion.js';
import type { AnswerForm } from '../protocol/wire-form.js';
import type { AnswerLogprob } from '../rules/answer.js';
import type { ChatTimes } from '../telemetry/report.js';
import type { Breakpoints } from './breakpoints.js';
import type { CacheUse } from './cache-use.js';
import type { GenerationListener, RunningChat } from './generation.js';
import type { Diagnosis } from './prefix-doctor.js';
import type { ChatPromotion } from './promotion.js';

/** Passed every check and can run, once. */
export interface ReadyChat {
  readonly request: ChatSettings;
  readonly head: AnswerHead;
  /** How the answer is written down. */
  readonly answer: AnswerForm;
  /** Of all prompts together. */
  readonly choices: number;
  readonly promptTokens: number;
  /** Tokens of the prompts and the longest answers. */
  readonly tokensMax: number;
  /** null when it names no cache. */
  readonly cache: CacheUse | null;
  /** null when it marks no prefix. */
  readonly breakpoints: Breakpoints | null;
  /** null where the client says what is to be reused. */
  readonly promotion: ChatPromotion | null;
  /** null where nothing was noticed of its prompt. */
  readonly diagnosis: Diagnosis | null;
  /** What its prefixes take in memory until they are kept. */
  readonly keptBytes: number;
  /** Whether the run still needs the messages. */
  readonly keepsConversation: boolean;
  /** Reviews the prompts, the part from a cache too. @throws ApiError `contentFilter`, `unavailable`. */
  reviewInput(): Promise<void>;
  run(listener: GenerationListener): RunningChat;
  /** Where the time went, the steps before the run included. */
  times(run: RunningChat): ChatTimes;
  /** Call it after the end: an upstream's count, where there is one, is what the chat used. */
  usedPromptTokens(run: RunningChat | null): number;
  newCallId(): string;
  describeToken(token: AnswerLogprob): TokenLogprobs;
}
