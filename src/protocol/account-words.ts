/**
 * Owns the words in which an account's state and the APIs that can be open to it are written.
 * It must never say what follows from them.
 */

/** While it is draining nothing new begins, and what runs goes on to its end. */
export const accountStates = ['active', 'draining', 'suspended', 'closed'] as const;
export type AccountStateName = (typeof accountStates)[number];

/** APIs that can be closed to an account; all others (models, the own account) are open to every active one. */
export const apis = ['chat', 'files', 'caching', 'estimate', 'embeddings', 'rerank'] as const;
export type Api = (typeof apis)[number];

/** Headers of HTTP itself and keys are out of reach. */
export const USER_HEADER_PATTERN = '^[xX]-[A-Za-z0-9-]{1,62}$';
