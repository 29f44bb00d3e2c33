/**
 * Owns the words in which an account's state and the APIs that can be open to it are written.
 * It must never say what follows from them.
 */

export const accountStates = ['active', 'suspended', 'closed'] as const;
export type AccountStateName = (typeof accountStates)[number];

/** What a key can be let into; everything else (the models, one's own account) is open to every active account. */
export const apis = ['chat', 'files', 'caching', 'estimate'] as const;
export type Api = (typeof apis)[number];
