/**
 * Owns which models are served, under which ids, and which of them an automatic id means.
 * It must never list a model that cannot answer; any other id is a 404.
 */
import { ApiError } from '../errors.js';
import type { Talk } from '../parsing/talk.js';
import type { EngineModel, RefusedModel } from '../plugin/contract.js';
import { type AccountPolicy, modelOpen } from '../rules/account-policy.js';
import { smallestFit } from '../rules/token-budget.js';
import type { AdmissionQueue } from './admission-queue.js';
import type { Inference } from './generation.js';
import type { PromptRenderer, RenderedPrompt } from './prompts.js';

export interface ServedModel {
  readonly id: string;
  readonly family: string;
  /** Tokens of prompt and answer together. */
  readonly window: number;
  readonly engine: EngineModel;
  readonly inference: Inference;
  readonly queue: AdmissionQueue;
  readonly prompts: PromptRenderer;
}

/** The user who asks, and what is open to them. */
export interface ChatCaller {
  readonly user: string;
  readonly policy: AccountPolicy;
}

export interface CountedPrompt {
  readonly model: ServedModel;
  readonly ids: Uint32Array;
}

const NO_IDS = new Uint32Array(0);

/** `svc-v1-auto` means the smallest window of the family `svc-v1` that holds the chat. */
const AUTO = '-auto';

export class Catalog {
  readonly #byId: ReadonlyMap<string, readonly ServedModel[]>;

  constructor(
    readonly models: readonly ServedModel[],
    /** Models of the settings that are not served. */
    readonly refused: readonly RefusedModel[] = [],
  ) {
    const byId = new Map<string, readonly ServedModel[]>(
      models.map((model) => [model.id, [model]]),
    );
    for (const { family } of models) {
      byId.set(
        family + AUTO,
        models.filter((model) => model.family === family),
      );
    }
    this.#byId = byId;
  }

  /** Ids in the order of the configuration, each with its largest window. */
  list(): { readonly id: string; readonly window: number; readonly vision: boolean }[] {
    return [...this.#byId].map(([id, models]) => ({
      id,
      window: Math.max(...models.map(({ window }) => window)),
      vision: models.every(({ engine }) => engine.vision),
    }));
  }

  has(id: string): boolean {
    return this.#byId.has(id);
  }

  /** The open models that an id stands for; none for an id that is not served. */
  openTo(policy: AccountPolicy, id: string): readonly ServedModel[] {
    const models = this.#byId.get(id) ?? [];
    if (modelOpen(policy, id)) return models;
    return models.filter((model) => modelOpen(policy, model.id));
  }

  /** Works for an id that is not served too. */
  isOpen(policy: AccountPolicy, id: string): boolean {
    return this.has(id) ? this.openTo(policy, id).length > 0 : modelOpen(policy, id);
  }

  /** @throws ApiError `modelNotFound`, also for a model that is not open. */
  find(id: string, policy: AccountPolicy): readonly ServedModel[] {
    const open = this.openTo(policy, id);
    if (open.length === 0) throw new ApiError('modelNotFound', {}, { param: 'model', code: id });
    return open;
  }

  get families(): readonly string[] {
    return [...new Set(this.models.map(({ family }) => family))];
  }

  /** Models of a family that are open, the smallest window first. */
  rising(policy: AccountPolicy, family: string): readonly ServedModel[] {
    return this.openTo(policy, family + AUTO).toSorted((a, b) => a.window - b.window);
  }

  /** Whether prefixes of so many tokens are prefilled on this model of its family. */
  prefills(policy: AccountPolicy, served: ServedModel, tokens: number): boolean {
    return this.rising(policy, served.family).find(({ window }) => tokens < window) === served;
  }

  /** Counts the prompt, once for each vocabulary, and chooses the model that runs it. */
  async count(
    { user, policy }: ChatCaller,
    id: string,
    talk: Talk,
    maxTokens: number | null,
  ): Promise<CountedPrompt> {
    const models = this.find(id, policy);
    const vocabularies = new Set(models.map(({ prompts }) => prompts));
    const rendered: [PromptRenderer, RenderedPrompt][] = [];
    for (const each of vocabularies) {
      const prompt = each.render(talk, false);
      rendered.push([each, prompt instanceof Promise ? await prompt : prompt]);
    }
    // A text too long for every window is refused before it is counted.
    const windowMax = Math.max(...models.map(({ window }) => window));
    const tooLong = rendered.every(([, prompt]) => prompt.reaches(windowMax));
    if (tooLong) throw new ApiError('inputTooLong');
    const idsOf = new Map(rendered.map(([prompts, prompt]) => [prompts, prompt.ids(user)]));
    const counted = await Promise.all(
      models.map(async (model) => {
        const ids = (await idsOf.get(model.prompts)) ?? NO_IDS;
        return { model, ids, window: model.window, promptTokens: ids.length };
      }),
    );
    // `find` returns at least one.
    return smallestFit(counted, maxTokens) as CountedPrompt;
  }
}
