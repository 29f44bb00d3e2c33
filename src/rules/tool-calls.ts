/**
 * Owns how tools constrain an answer, and how a call is read out of it.
 * It must never run on text a user wrote: only on what the engine generated.
 */
import type { Constraint } from '../plugin/contract.js';
import type { PromptTool } from './prompt.js';

/** What opens and closes a call in an answer, as the prompt tells the model. */
export const TOOL_CALL_OPEN = '<tool_call>';
export const TOOL_CALL_CLOSE = '</tool_call>';

/** `auto`: text, until the model opens a call. `forced`: a call from the first token. */
export type ToolMode = 'off' | 'auto' | 'forced';

export type ToolChoice =
  | { readonly type: 'auto' | 'none' | 'required' }
  | { readonly type: 'function'; readonly name: string };

export interface ToolPlan {
  readonly mode: ToolMode;
  readonly constraint: Constraint | null;
}

export function planTools(tools: readonly PromptTool[], choice: ToolChoice): ToolPlan {
  if (tools.length === 0 || choice.type === 'none') return { mode: 'off', constraint: null };
  const open =
    choice.type === 'function' ? tools.filter(({ name }) => name === choice.name) : tools;
  const schema = JSON.stringify(callSchema(open));
  return choice.type === 'auto'
    ? { mode: 'auto', constraint: { schema, trigger: TOOL_CALL_OPEN } }
    : { mode: 'forced', constraint: { schema, trigger: null } };
}

/** The schema of one call of any of these tools. */
function callSchema(tools: readonly PromptTool[]): object {
  const $defs: Record<string, unknown> = {};
  const calls = tools.map(({ name, parameters }, index) => {
    const place = `t${index}`;
    $defs[place] = moved(parameters ?? { type: 'object' }, `#/$defs/${place}`);
    return {
      type: 'object',
      properties: { name: { const: name }, arguments: { $ref: `#/$defs/${place}` } },
      required: ['name', 'arguments'],
      additionalProperties: false,
    };
  });
  const [only] = calls;
  return { ...(calls.length === 1 ? only : { anyOf: calls }), $defs };
}

/** A schema that moves into another one needs its references rewritten. */
function moved(schema: unknown, place: string): unknown {
  if (Array.isArray(schema)) return schema.map((item) => moved(item, place));
  if (typeof schema !== 'object' || schema === null) return schema;
  return Object.fromEntries(
    Object.entries(schema).map(([key, value]) => {
      const isLocal = key === '$ref' && typeof value === 'string' && value.startsWith('#');
      return [key, isLocal ? place + value.slice(1) : moved(value, place)];
    }),
  );
}

export interface GeneratedCall {
  readonly name: string;
  /** JSON text. */
  readonly arguments: string;
}

/** @returns null where the text is not one whole call, as after a cut by `max_tokens`. */
export function readToolCall(text: string): GeneratedCall | null {
  let call: unknown;
  try {
    call = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof call !== 'object' || call === null) return null;
  const { name, arguments: input } = call as Record<string, unknown>;
  if (typeof name !== 'string' || typeof input !== 'object' || input === null) return null;
  return { name, arguments: argumentsText(text) ?? JSON.stringify(input) };
}

/** The arguments as generated, cut out by the grammar's order of fields: parsing would round large numbers. */
function argumentsText(text: string): string | null {
  const head = /^\s*\{\s*"name"\s*:\s*"(?:[^"\\]|\\.)*"\s*,\s*"arguments"\s*:/.exec(text);
  if (head === null) return null;
  return text.slice(head[0].length, text.lastIndexOf('}')).trim();
}
