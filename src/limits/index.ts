/**
 * Owns the door to the bounds: whoever takes one has had the relations between them checked.
 * It must hold no bound itself.
 */
import { limits, modelWindows } from './bounds.js';
import { assertRelations } from './relations.js';

export { type Limits, limits, modelWindows } from './bounds.js';

assertRelations(limits, modelWindows);
