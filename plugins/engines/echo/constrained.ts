/**
 * Owns what the echo engine says under a constraint: the text it was told where that fits, else the smallest that does.
 * It must never break the constraint, so that clients can be tested without weights.
 */
import type { CallRule, CallsRule, Constraint, SchemaRule } from 'preface/plugin';
import { Samples } from './sample.js';

/** @param told the last turn. */
export function constrained(told: string, { value, calls }: Constraint): string {
  if (calls !== null && !calls.opened && (value === null || told.includes(calls.open))) return told;
  if (calls?.opened) return callsIn(told, calls) ?? smallestCall(calls);
  return value === null || fits(told, value) ? told : JSON.stringify(sample(value));
}

function fits(text: string, rule: SchemaRule): boolean {
  const parsed = jsonOf(text);
  if (parsed === undefined) return false;
  if (rule.schema === null) return isObject(parsed);
  try {
    return new Samples(JSON.parse(rule.schema)).fits(parsed);
  } catch {
    return false;
  }
}

/** As they stand behind the mark that opened the first; null where one is none of the tools, or too many. */
function callsIn(told: string, rule: CallsRule): string | null {
  const { open, close, many } = rule;
  const texts = told.split(open).map((text) => text.trim());
  const found = texts.filter((text, at) => at > 0 || text !== '').map((text) => inner(text, close));
  const fits = found.length > 0 && found.every((text) => isCall(text, rule));
  return fits && (many || found.length === 1) ? found.join(`${close}\n${open}`) : null;
}

function inner(text: string, close: string): string {
  return text.endsWith(close) ? text.slice(0, -close.length).trim() : text;
}

function isCall(text: string, { tools }: CallsRule): boolean {
  const call = jsonOf(text);
  return isObject(call) && isObject(call.arguments) && tools.some(({ name }) => name === call.name);
}

function smallestCall({ tools }: CallsRule): string {
  const [{ name, input }] = tools as readonly [CallRule];
  const made = sample(input);
  return JSON.stringify({ name, arguments: isObject(made) ? made : {} });
}

function sample({ schema }: SchemaRule): unknown {
  try {
    return schema === null ? {} : new Samples(JSON.parse(schema)).value();
  } catch {
    // Too large for a sample.
    return {};
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
