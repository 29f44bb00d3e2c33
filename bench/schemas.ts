/**
 * Owns the count of JSON schemas that the local engine's grammars hold as a whole, hold less deeply, or refuse.
 * It must never count a schema that is no JSON, nor judge one by a model's answers.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { SchemaError } from '../plugins/engines/llama/schema/cost.js';
import { schemaGrammar } from '../plugins/engines/llama/schema/grammar.js';

/** Of the schemas of one folder. */
export interface Held {
  readonly held: number;
  /** A part is left to the model, where the schema is not strict. */
  readonly relaxed: number;
  /** Not even that. */
  readonly refused: number;
  readonly slowestMs: number;
  /** Keywords that are left, and in how many schemas. */
  readonly left: Readonly<Record<string, number>>;
}

/** @param folder of files that are a schema each, or a list of tests with a schema each. */
export function heldOf(folder: string): Held {
  const counts = {
    held: 0,
    relaxed: 0,
    refused: 0,
    slowestMs: 0,
    left: {} as Record<string, number>,
  };
  for (const schema of schemasIn(folder)) {
    const beganMs = performance.now();
    const { outcome, left } = outcomeOf(schema);
    counts.slowestMs = Math.max(counts.slowestMs, performance.now() - beganMs);
    counts[outcome] += 1;
    for (const keyword of new Set(left.map(keywordOf)))
      counts.left[keyword] = (counts.left[keyword] ?? 0) + 1;
  }
  return counts;
}

function outcomeOf(schema: string): {
  outcome: 'held' | 'relaxed' | 'refused';
  left: readonly string[];
} {
  try {
    schemaGrammar(schema, true);
    return { outcome: 'held', left: [] };
  } catch (cause) {
    if (!(cause instanceof SchemaError)) throw cause;
  }
  try {
    return { outcome: 'relaxed', left: schemaGrammar(schema, false).left };
  } catch (cause) {
    if (!(cause instanceof SchemaError)) throw cause;
    return { outcome: 'refused', left: [] };
  }
}

/** The last step of a path like `schema.properties.a.pattern`. */
function keywordOf(path: string): string {
  return path.slice(path.lastIndexOf('.') + 1).replace(/\[.*/, '');
}

function* schemasIn(folder: string): Generator<string, void> {
  for (const name of readdirSync(folder).sort()) {
    if (!name.endsWith('.json')) continue;
    const value = parsed(readFileSync(join(folder, name), 'utf8'));
    const tests = Array.isArray(value) ? value : [{ schema: value }];
    for (const { schema } of tests as { schema: unknown }[])
      if (schema !== undefined) yield JSON.stringify(schema);
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function main(folders: readonly string[]): void {
  if (folders.length === 0) {
    console.error('usage: node dist/bench/schemas.js FOLDER…: of schemas, or of folders of them');
    process.exit(2);
  }
  for (const folder of folders.flatMap(withInner)) {
    const { held, relaxed, refused, slowestMs, left } = heldOf(folder);
    const most = Object.entries(left).sort((a, b) => b[1] - a[1]);
    const named = most.slice(0, 5).map(([keyword, count]) => `${keyword} ${count}`);
    console.log(
      `${basename(folder)}: ${held} held, ${relaxed} relaxed, ${refused} refused, ` +
        `slowest ${Math.round(slowestMs)} ms${named.length === 0 ? '' : `; left: ${named.join(', ')}`}`,
    );
  }
}

/** Folders inside, where there are any. */
function withInner(folder: string): string[] {
  const inner = readdirSync(folder)
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isDirectory());
  return inner.length === 0 ? [folder] : inner;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) main(process.argv.slice(2));
