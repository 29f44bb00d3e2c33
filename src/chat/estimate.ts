/**
 * Owns the token estimate: which vocabulary an id is counted by, and whether its images count.
 * It must count by the same path as a chat: an estimate that is off by one makes a client's request fail.
 */
import { ApiError } from '../errors.js';
import type { Talk } from '../parsing/talk.js';
import type { AccountPolicy } from '../rules/account-policy.js';
import type { Sight } from '../rules/image-tokens.js';
import type { ChatCaller } from './catalog.js';
import type { PromptRenderer } from './prompts.js';

/** An id with this suffix is counted like the model without it, and image parts by their pixels. */
const VISION = '-vision-preview';

/** Opens the counter for an id; null for an unknown id. */
export type FindPrompts = (modelId: string) => Promise<PromptRenderer> | null;

/** What becomes of images in a prompt for an open model. */
export type FindSight = (policy: AccountPolicy, modelId: string) => Sight;

export class EstimateService {
  constructor(
    readonly find: FindPrompts,
    /** Also asked for ids that are not served. */
    readonly isOpen: (policy: AccountPolicy, id: string) => boolean,
    readonly sight: FindSight,
  ) {}

  /** @throws ApiError `modelNotFound`, or what is wrong with an image. */
  async count({ user, policy }: ChatCaller, model: string, talk: Talk): Promise<number> {
    const sees = model.endsWith(VISION);
    const id = sees ? model.slice(0, -VISION.length) : model;
    const prompts = this.isOpen(policy, id) ? this.find(id) : null;
    if (prompts === null) throw new ApiError('modelNotFound', {}, { param: 'model', code: model });
    const sight = sees ? 'counts' : this.sight(policy, id);
    return await (await prompts).tokens(user, talk, sight);
  }
}
