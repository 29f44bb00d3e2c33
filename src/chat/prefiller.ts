/**
 * Owns the way from a cache's messages to a prefilled prefix in an engine.
 * It must never count or render by another path than a chat does, or no chat would begin with it.
 */
import type { Prefiller, PrefillTask } from '../actors/snapshots.js';
import type { Clock } from '../clock.js';
import { ApiError } from '../errors.js';
import type { Catalog } from './catalog.js';
import { attempted } from './prefill-attempts.js';

type Prefix = Pick<PrefillTask, 'messages' | 'tools'>;

export class EnginePrefiller implements Prefiller {
  constructor(
    readonly catalog: Catalog,
    readonly clock: Clock,
  ) {}

  get families(): readonly string[] {
    return [...new Set(this.catalog.models.map(({ family }) => family))];
  }

  /** Tokens of the prefix, without what opens an answer. */
  async count(owner: string, family: string, prefix: Prefix): Promise<number> {
    const [model] = this.catalog.rising(family);
    return model === undefined ? 0 : (await model.prompts.prefixIds(owner, prefix)).length;
  }

  /** On the smallest served model of the family whose window holds the prefix and an answer. */
  prefill(task: PrefillTask, signal: AbortSignal): Promise<{ tokens: number }> {
    return attempted(() => this.#prefill(task, signal), this.clock, signal);
  }

  async #prefill(
    { owner, family, snapshot, ...prefix }: PrefillTask,
    signal: AbortSignal,
  ): Promise<{ tokens: number }> {
    for (const model of this.catalog.rising(family)) {
      const prompt = await model.prompts.prefixIds(owner, prefix);
      if (prompt.length >= model.window) continue;
      return await model.inference.prefill({ model: model.id, owner, prompt, snapshot }, signal);
    }
    throw new ApiError('inputTooLong');
  }

  async forget(snapshot: string): Promise<void> {
    const engines = new Set(this.catalog.models.map(({ inference }) => inference));
    for (const engine of engines) await engine.forget(snapshot);
  }
}
