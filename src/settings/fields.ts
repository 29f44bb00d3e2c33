/**
 * Owns tables of settings: one entry a setting, from which the reading, the static type and the documentation follow.
 * It must never know which table it reads.
 */
import type { Kind, SettingPath } from './setting-path.js';

export interface Field<Value> {
  readonly kind: Kind<Value>;
  /** As an operator would write it, or what it is on this machine; null: no value. Without one the field is required. */
  readonly default?: unknown;
  /** The default in words, where it depends on the machine. */
  readonly defaultText?: string;
  readonly help: string;
}

export type Fields = Readonly<Record<string, Field<unknown>>>;

/** The values of a table once they are read. */
export type Values<Table extends Fields> = {
  readonly [Name in keyof Table]:
    | (Table[Name]['kind'] extends Kind<infer Value> ? Value : never)
    | (Table[Name] extends { readonly default: null } ? null : never);
};

/** @throws Error that names the wrong, the missing or the unknown field. */
export function readFields<Table extends Fields>(
  table: Table,
  raw: unknown,
  at: SettingPath,
): Values<Table> {
  const given = at.object(raw);
  at.checkKeys(given, Object.keys(table));
  const values = Object.entries(table).map(([name, field]) => {
    const written = given[name] === undefined ? field.default : given[name];
    return [name, readField(field, written, at.in(name))] as const;
  });
  return Object.fromEntries(values) as Values<Table>;
}

export function readField({ kind, default: none }: Field<unknown>, raw: unknown, at: SettingPath) {
  return raw === null && none === null ? null : at.read(kind, raw);
}

/** A table inside a table. */
export function object<Table extends Fields>(table: Table): Kind<Values<Table>> {
  const keys = Object.keys(table).map((key) => `"${key}"`);
  return { allowed: `{${keys.join(', ')}}`, read: (raw, at) => readFields(table, raw, at) };
}

export function list<Value>(each: Kind<Value>, min: number, max: number): Kind<readonly Value[]> {
  return {
    allowed: `a list of ${min} to ${max} ${each.allowed}`,
    read(raw, at) {
      if (!Array.isArray(raw) || raw.length < min || raw.length > max) return undefined;
      return raw.map((value, index) => at.in(String(index)).read(each, value));
    },
    describe: (raw) => (Array.isArray(raw) ? `${raw.length} of them` : typeof raw),
  };
}

/** The default in words. */
export function defaultText(field: Field<unknown>): string {
  const { default: value, defaultText: text } = field;
  if (text !== undefined) return text;
  return 'default' in field ? String(value ?? 'none') || 'none' : 'required';
}

export function fieldsMarkdown(table: Fields): string {
  return tableMarkdown(
    ['key', 'default', 'allowed', 'what it is'],
    Object.entries(table).map(([name, field]) => [
      `\`${name}\``,
      defaultText(field),
      field.kind.allowed,
      field.help,
    ]),
  );
}

export function tableMarkdown(headings: readonly string[], rows: readonly string[][]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [line(headings), `|${'---|'.repeat(headings.length)}`, ...rows.map(line)].join('\n');
}
