/**
 * Owns the token estimate: which vocabulary an id is counted by, and whether its images count.
 * It must count by the same path as a chat: an estimate that is off by one makes a client's request fail.
 */
import { ApiError } from '../errors.js';
import type { EstimateRequest } from '../protocol/estimate.js';
import type { AccountPolicy } from '../rules/account-policy.js';
import type { ReadImage } from '../rules/chat-prompt.js';
import type { ChatCaller } from './catalog.js';
import type { PromptRenderer } from './prompts.js';

/** An id with this suffix is counted like the model without it, and image parts by their pixels. */
const VISION = '-vision-preview';

/** Opens the counter for an id; null for an unknown id. */
export type FindPrompts = (modelId: string) => Promise<PromptRenderer> | null;

export class EstimateService {
  constructor(
    readonly find: FindPrompts,
    readonly readImage: ReadImage,
    /** Also asked for ids that are not served. */
    readonly isOpen: (policy: AccountPolicy, id: string) => boolean,
  ) {}

  /** @throws ApiError `modelNotFound`, or what is wrong with an image. */
  async count({ user, policy }: ChatCaller, request: EstimateRequest): Promise<number> {
    const { model } = request;
    const sees = model.endsWith(VISION);
    const id = sees ? model.slice(0, -VISION.length) : model;
    const prompts = this.isOpen(policy, id) ? this.find(id) : null;
    if (prompts === null) throw new ApiError('modelNotFound', {}, { param: 'model', code: model });
    const ids = await (await prompts).ids(user, request, sees ? this.readImage : null);
    return ids.length;
  }
}
