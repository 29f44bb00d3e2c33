/**
 * Owns the way from a cache's messages to a prefilled prefix in an engine.
 * It must never count or render by another path than a chat, or no chat would match the prefix.
 */
import type { Prefiller, PrefillTask } from '../caches/snapshots.js';
import type { Clock } from '../clock.js';
import { ApiError } from '../errors.js';
import type { Parser } from '../parsing/parser.js';
import type { Talk } from '../parsing/talk.js';
import type { AccountPolicy } from '../rules/account-policy.js';
import type { Catalog } from './catalog.js';
import { conversationOf } from './conversation.js';
import { attempted } from './prefill-attempts.js';

export class EnginePrefiller implements Prefiller {
  constructor(
    readonly catalog: Catalog,
    readonly clock: Clock,
    readonly policyOf: (owner: string) => AccountPolicy,
    readonly parser: Pick<Parser, 'open'>,
  ) {}

  /** Whether the owner can chat with any model of the family. */
  isOpen(owner: string, family: string): boolean {
    return this.#rising(owner, family).length > 0;
  }

  /** Tokens of the prefix, without the opening of the answer. */
  async count(owner: string, family: string, talk: Talk): Promise<number> {
    const [model] = this.#rising(owner, family);
    return model === undefined ? 0 : (await model.prompts.prefixIds(owner, talk)).length;
  }

  /** On the smallest model of the family that is open to the owner and whose window holds the prefix and an answer. */
  prefill(task: PrefillTask, signal: AbortSignal): Promise<{ tokens: number }> {
    return attempted(() => this.#prefill(task, signal), this.clock, signal);
  }

  async #prefill(
    { owner, family, snapshot, stored }: PrefillTask,
    signal: AbortSignal,
  ): Promise<{ tokens: number }> {
    const models = this.#rising(owner, family);
    if (models.length === 0) throw new ApiError('modelNotFound');
    const { talk } = await this.parser.open(owner, stored);
    for (const model of models) {
      const prompt = await model.prompts.prefixIds(owner, talk);
      if (prompt.length >= model.window) continue;
      const conversation = model.engine.conversation
        ? { conversation: conversationOf(await talk.source()) }
        : {};
      const task = { model: model.id, owner, prompt, snapshot, ...conversation };
      return await model.inference.prefill(task, signal);
    }
    throw new ApiError('inputTooLong');
  }

  /** What is open may change between two prefills. */
  #rising(owner: string, family: string) {
    return this.catalog.rising(this.policyOf(owner), family);
  }

  async forget(snapshot: string): Promise<void> {
    const engines = new Set(this.catalog.models.map(({ inference }) => inference));
    for (const engine of engines) await engine.forget(snapshot);
  }
}
