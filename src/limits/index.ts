/**
 * Owns the door to the bounds: the relations between them are checked before any of them is used.
 * It must hold no bound itself.
 */
import { limits, modelWindows } from './bounds.js';
import { assertRelations } from './relations.js';

export { type Limits, limits, modelWindows } from './bounds.js';

assertRelations(limits, modelWindows);
