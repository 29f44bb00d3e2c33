/**
 * Owns the part of the engine contract for models that make vectors of texts, or scores of pairs of a query and a document.
 * It must stay free of imports, like the contract it belongs to.
 */

/** What a model makes of its input: an answer, a vector, or the score of a pair. */
export type ModelKind = 'chat' | 'embedding' | 'rerank';

/** What the service has to know of a model that makes vectors. The score of a pair is a vector of one number. */
export interface VectorFacts {
  /** Numbers of a vector; null where the engine learns it from another server. */
  readonly dimensions: number | null;
  /** Trained so that the first numbers of a vector are a good shorter vector. */
  readonly shortens: boolean;
  /** Ids around those of one text. */
  readonly before: readonly number[];
  readonly after: readonly number[];
  readonly pair: PairForm;
  /** True for an engine that hands texts on to a server with a vocabulary of its own: its tasks carry `texts`. */
  readonly takesTexts: boolean;
}

/** How a query and a document become one input. */
export type PairForm =
  /** Text with `{query}` and `{document}`; special tokens in it count as such. */
  | { readonly type: 'template'; readonly text: string }
  | {
      readonly type: 'ids';
      readonly before: readonly number[];
      readonly between: readonly number[];
      readonly after: readonly number[];
    };

/** What an engine that hands texts on gets. */
export type VectorTexts =
  | {
      readonly type: 'embedding';
      readonly inputs: readonly (string | readonly number[])[];
      /** null: all of them. */
      readonly dimensions: number | null;
    }
  | { readonly type: 'rerank'; readonly query: string; readonly documents: readonly string[] };

export interface VectorTask {
  readonly model: string;
  readonly owner: string;
  /** Ids of each input, as counted; none where the task carries `texts`. */
  readonly inputs: readonly Uint32Array[];
  readonly texts?: VectorTexts;
}

export type VectorEvent = {
  readonly type: 'vectors';
  /**
   * Of the next inputs, in order, as the model gives them: neither shortened nor of length 1. The score of a pair is from
   * 0 to 1, or as another server told it.
   */
  readonly vectors: readonly Float32Array[];
};
