/**
 * Owns what an operator sees of the models and does with their memory.
 * It must never unload a model that has work.
 */
import type { Catalog, ServedModel, VectorModel } from '../chat/catalog.js';
import { ApiError, invalid } from '../errors.js';
import type { WireAdminModel, WireAdminModelList } from '../protocol/admin-models.js';

export interface ModelBookParts {
  readonly catalog: Pick<Catalog, 'models' | 'vectors' | 'refused'>;
  /** Name of the engine that serves the model. */
  readonly engineOf: (model: string) => string;
  readonly downloads: () => Promise<WireAdminModelList['downloads']>;
}

type Held = ServedModel | VectorModel;

export class ModelBook {
  constructor(readonly parts: ModelBookParts) {}

  async list(): Promise<WireAdminModelList> {
    const { catalog, downloads } = this.parts;
    return {
      object: 'list',
      data: [...catalog.models, ...catalog.vectors].map((model) => this.#shown(model)),
      refused: catalog.refused.map(({ id, reason }) => ({ id, reason })),
      downloads: await downloads(),
    };
  }

  /** Resolves when it is loaded. @throws ApiError `notFound`, `modelAtWork`. */
  load(id: string): Promise<WireAdminModel> {
    return this.#act(id, 'load');
  }

  /** @throws ApiError as above. */
  unload(id: string): Promise<WireAdminModel> {
    return this.#act(id, 'unload');
  }

  async #act(id: string, verb: 'load' | 'unload'): Promise<WireAdminModel> {
    const { catalog } = this.parts;
    const model = [...catalog.models, ...catalog.vectors].find((each) => each.id === id);
    if (model === undefined) throw new ApiError('notFound', { kind: 'model', id });
    const { inference } = model;
    const act = inference[verb];
    if (act === undefined || inference.memory?.(id) === undefined)
      throw invalid(
        `the model ${id} cannot be told to ${verb}: its engine keeps nothing of it here`,
      );
    await act.call(inference, id);
    return this.#shown(model);
  }

  #shown(model: Held): WireAdminModel {
    const { id, window, engine, inference, queue } = model;
    const memory = inference.memory?.(id);
    return {
      object: 'model',
      id,
      kind: 'kind' in model ? model.kind : 'chat',
      family: 'family' in model ? model.family : null,
      engine: this.parts.engineOf(id),
      window,
      state: memory?.state ?? 'unknown',
      state_since: memory === undefined ? null : memory.sinceMs / 1000,
      memory_bytes: memory?.bytes ?? null,
      slots: engine.slots,
      waiting: queue.waiting.count,
      exact: inference.exact?.(id) ?? null,
    };
  }
}
