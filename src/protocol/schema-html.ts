/**
 * Owns how a JSON schema is shown to a reader: what a value may be, and field by field what is in it.
 * It must never leave out a bound that the schema sets.
 */
import { type Html, html, prose } from './html.js';

type Json = Readonly<Record<string, unknown>>;

const REFERENCE = '#/components/schemas/';
/** The keywords that bound a value, and their words. */
const BOUNDS: Readonly<Record<string, string>> = {
  minimum: 'at least',
  exclusiveMinimum: 'more than',
  maximum: 'at most',
  exclusiveMaximum: 'less than',
  minLength: 'characters at least',
  maxLength: 'characters at most',
  minItems: 'items at least',
  maxItems: 'items at most',
  minProperties: 'fields at least',
  maxProperties: 'fields at most',
  pattern: 'matches',
  format: 'format',
  default: 'default',
};

export function schemaHtml(schema: Json): Html {
  const { description } = schema;
  const said = typeof description === 'string' ? html` ${prose(description)}` : null;
  return html`<span class="type">${typeHtml(schema)}</span>${bounds(schema)}${said}${inner(schema)}`;
}

function typeHtml(schema: Json): Html {
  const { $ref, type } = schema;
  if (typeof $ref === 'string') {
    const name = $ref.slice(REFERENCE.length);
    return html`<a href="#schema-${name}">${name}</a>`;
  }
  if ('const' in schema) return html`<code>${JSON.stringify(schema.const)}</code>`;
  if (Array.isArray(schema.enum)) {
    return html`<code>${schema.enum.map((value) => JSON.stringify(value)).join(' | ')}</code>`;
  }
  const { some, orNull } = alternatives(schema);
  if (some.length === 1) return html`${typeHtml(some[0] ?? {})}${orNull ? ' or null' : ''}`;
  if (some.length > 1) return html`one of${orNull ? ' (or null)' : ''}`;
  return html`${Array.isArray(type) ? type.join(' or ') : String(type ?? 'any value')}`;
}

function bounds(schema: Json): Html {
  const shown = Object.entries(BOUNDS).filter(([name]) => name in schema);
  const only = soleAlternative(schema);
  return html`${shown.map(([name, words]) => html` <small>${words} <code>${JSON.stringify(schema[name])}</code></small>`)}${only === null ? null : bounds(only)}`;
}

/** Fields, items and alternatives, each with what is in it. */
function inner(schema: Json): Html | null {
  const only = soleAlternative(schema);
  if (only !== null)
    return html`${only.description === undefined ? null : html` ${prose(String(only.description))}`}${inner(only)}`;
  const { some } = alternatives(schema);
  if (some.length > 1)
    return html`<ul>${some.map((each) => html`<li>${schemaHtml(each)}</li>`)}</ul>`;
  if (isSchema(schema.items))
    return html`<div class="inner">each: ${schemaHtml(schema.items)}</div>`;
  return fields(schema);
}

function fields(schema: Json): Html | null {
  const { properties, additionalProperties } = schema;
  const required = Array.isArray(schema.required) ? schema.required : [];
  const rows = Object.entries(isSchema(properties) ? properties : {}).map(
    ([
      name,
      field,
    ]) => html`<dt><code>${name}</code>${required.includes(name) ? html` <small>required</small>` : null}</dt>
<dd>${schemaHtml(isSchema(field) ? field : {})}</dd>`,
  );
  if (isSchema(additionalProperties)) {
    rows.push(html`<dt><small>any name</small></dt><dd>${schemaHtml(additionalProperties)}</dd>`);
  }
  return rows.length === 0 ? null : html`<dl>${rows}</dl>`;
}

/** The one alternative beside null. */
function soleAlternative(schema: Json): Json | null {
  const { some } = alternatives(schema);
  return some.length === 1 ? (some[0] ?? null) : null;
}

function alternatives(schema: Json): { readonly some: readonly Json[]; readonly orNull: boolean } {
  const all = (schema.anyOf ?? schema.oneOf ?? schema.allOf ?? []) as readonly Json[];
  const some = all.filter(({ type }) => type !== 'null');
  return { some, orNull: some.length < all.length };
}

function isSchema(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
