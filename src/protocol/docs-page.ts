/**
 * Owns the page that shows the OpenAPI document: one file, no script, nothing to fetch.
 * It must never say what the document does not.
 */
import { type Html, html, prose } from './html.js';
import { schemaHtml } from './schema-html.js';

type Json = Readonly<Record<string, unknown>>;

interface Tag {
  readonly name: string;
  readonly description: string;
}

interface Operation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly description?: string;
  readonly security?: readonly unknown[];
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: Content };
  readonly responses: Readonly<Record<string, Response>>;
}

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required: boolean;
  readonly description: string;
  readonly schema: Json;
}

type Content = Readonly<Record<string, MediaType>>;

interface MediaType {
  readonly schema: Json;
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>;
}

interface Response {
  readonly description: string;
  readonly content: Content;
}

interface OpenApi {
  readonly info: { readonly title: string; readonly version: string; readonly summary: string };
  readonly tags: readonly Tag[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Json>> };
}

interface Placed {
  readonly method: string;
  readonly path: string;
  readonly operation: Operation;
}

/** @param document as `/openapi.json` has it. */
export function docsPage(document: object): string {
  // Built by this program, so it can be trusted.
  const api = document as OpenApi;
  const operations = Object.entries(api.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ method, path, operation })),
  );
  const { title, version, summary } = api.info;
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} ${version}: the API</title>
<link rel="stylesheet" href="docs/style.css">
</head>
<body>
<nav aria-label="Operations">${api.tags.map((tag) => navigation(tag, operations))}</nav>
<main>
<header><h1>${title} <small>${version}</small></h1><p>${prose(summary)}</p>
<p>All calls but those marked “no key” want <code>Authorization: Bearer …</code>. This page shows
<a href="openapi.json">openapi.json</a>, which generators read. <a href="docs/guides">Guides</a> show it with other people's programs.</p></header>
${api.tags.map((tag) => chapter(tag, operations))}
<section><h2 id="schemas">Schemas</h2>
${Object.entries(api.components.schemas).map(([name, schema]) => named(name, schema))}
</section>
</main>
</body>
</html>
`;
  return page.text;
}

function navigation({ name }: Tag, operations: readonly Placed[]): Html {
  const links = ofTag(name, operations).map(
    ({ method, path, operation }) => html`<li><a href="#${operation.operationId}">
<b class="${method}">${method.toUpperCase()}</b> ${path}</a></li>`,
  );
  return html`<h2>${name}</h2><ul>${links}</ul>`;
}

function chapter({ name, description }: Tag, operations: readonly Placed[]): Html {
  return html`<section><h2>${name}</h2><p>${prose(description)}</p>
${ofTag(name, operations).map(article)}</section>`;
}

function ofTag(name: string, operations: readonly Placed[]): Placed[] {
  return operations.filter(({ operation }) => operation.tags.includes(name));
}

function article({ method, path, operation }: Placed): Html {
  const { operationId, summary, description, security, parameters, requestBody } = operation;
  const open = security?.length === 0 ? html` <small>no key</small>` : null;
  return html`<article id="${operationId}">
<h3><b class="${method}">${method.toUpperCase()}</b> <code>${path}</code>${open}</h3>
<p>${prose(summary)}. ${description === undefined ? null : prose(description)}</p>
${parameters === undefined ? null : html`<h4>Parameters</h4><dl>${parameters.map(parameter)}</dl>`}
${requestBody === undefined ? null : html`<h4>Body</h4>${contentHtml(requestBody.content)}`}
<h4>Answers</h4>
${Object.entries(operation.responses).map(([status, response]) => answer(status, response))}
</article>`;
}

function parameter({ name, in: place, required, description, schema }: Parameter): Html {
  return html`<dt><code>${name}</code> <small>${place}${required ? ', required' : ''}</small></dt>
<dd>${schemaHtml(schema)} ${prose(description)}</dd>`;
}

function answer(status: string, { description, content }: Response): Html {
  const kind = status.startsWith('2') ? 'good' : 'bad';
  return html`<details><summary><b class="${kind}">${status}</b> ${prose(firstLine(description))}</summary>
<p>${prose(description)}</p>${contentHtml(content)}</details>`;
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0] ?? '';
}

function contentHtml(content: Content): readonly Html[] {
  return Object.entries(content).map(
    ([type, { schema, examples }]) => html`<p><small>${type}</small></p>${schemaHtml(schema)}
${Object.entries(examples ?? {}).map(([, { value }]) => example(value))}`,
  );
}

function example(value: unknown): Html {
  const text = typeof value === 'string' ? value : JSON.stringify(value, null, 2);
  return html`<pre><code>${text}</code></pre>`;
}

function named(name: string, schema: Json): Html {
  return html`<article id="schema-${name}"><h3><code>${name}</code></h3>${schemaHtml(schema)}</article>`;
}
