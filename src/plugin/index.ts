/**
 * Owns what plugins may use of the core, as `preface/plugin`: the types of the contracts and the few values beside them.
 * It must never export a value that opens, reads or changes anything of the service.
 */
export { type Clock, systemClock } from '../clock.js';
export { type Limits, limits } from '../limits/index.js';
export * from './contract.js';
export { partNames } from './part-names.js';
