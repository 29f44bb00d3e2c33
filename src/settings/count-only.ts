/**
 * Owns the ids of models that are not served, but whose prompts can be counted.
 * It must never name a served model: those are counted with their own vocabulary.
 */
import { pluginFinder } from './plugins.js';

export interface CountedBy {
  /** Plugin module. */
  readonly module: string;
  /** null: the plugin's own vocabulary. */
  readonly path: null;
}

/** The Kimi K2 family; the tokenizer plugin holds its published vocabulary. */
const KIMI_K2 = ['svc-k2.5', 'svc-k2-0905-preview', 'svc-k2-0711-preview', 'svc-k2-turbo-preview'];

const module = pluginFinder.find('tokenizer', 'tokenizer-tiktoken', '/') ?? 'tokenizer-tiktoken';

export const countOnlyModels: ReadonlyMap<string, CountedBy> = new Map(
  KIMI_K2.map((id) => [id, { module, path: null }]),
);
