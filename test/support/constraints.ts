/**
 * Owns the constraints that tests of engines ask for.
 * It must never hold a schema.
 */
import type { Constraint } from '../../src/plugin/contract.js';

/** One JSON value from the first token on. @param schema JSON text; null for any object. */
export function valueConstraint(schema: string | null, strict = true): Constraint {
  return { value: { schema, strict, field: 'schema' }, calls: null };
}

/** A call of the one function `f`, once the output has opened it. */
export function callConstraint(schema: string, open: string, many = false): Constraint {
  const tools = [{ name: 'f', input: { schema, strict: false, field: 'input' } }];
  return { value: null, calls: { tools, open, close: '</tool_call>', opened: false, many } };
}
