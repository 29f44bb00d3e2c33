/**
 * Owns the OpenAPI document: built from the resource tables, so that it says what the checks check.
 * It must never describe a field or an error by itself.
 */
import { type ErrorName, type ErrorRow, errorTable } from '../errors.js';
import type { ErrorDescription, Media, Operation, Parameter, Resource } from './api.js';
import { errorExample, errorSchema } from './errors.js';

type Json = Readonly<Record<string, unknown>>;

/** What any operation behind a key can answer, whatever it does. */
const securedErrors: readonly ErrorName[] = [
  'invalidRequest',
  'noAuthentication',
  'wrongKey',
  'accountNotActive',
  'apiNotOpen',
  'overloaded',
  'concurrencyLimit',
  'requestLimit',
  'server',
  'unavailable',
];

/** The same behind the operator's key, which has no account; without such a key there is nothing there. */
const adminErrors: readonly ErrorName[] = [
  'invalidRequest',
  'noAuthentication',
  'wrongKey',
  'notFound',
  'overloaded',
  'server',
  'unavailable',
];

export function openApiDocument(version: string, resources: readonly Resource[]): Json {
  return {
    openapi: '3.1.0',
    info: {
      title: 'preface',
      version,
      summary: 'Chat, files, token estimates and context caches, self-hosted.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    tags: resources.map(({ tag, description }) => ({ name: tag, description })),
    security: [{ key: [] }],
    paths: paths(resources.flatMap(({ operations }) => operations)),
    components: {
      securitySchemes: {
        key: { type: 'http', scheme: 'bearer' },
        adminKey: { type: 'http', scheme: 'bearer', description: 'The key of the operator.' },
      },
      headers,
      schemas: Object.assign(
        { Error: errorSchema },
        ...resources.map(({ schemas }) => schemas),
      ) as Json,
    },
  };
}

const headers: Json = {
  'x-request-id': {
    description: "Names the request in the server's log. The client's own id is echoed.",
    schema: { type: 'string' },
  },
  'retry-after': {
    description: 'Seconds until the same request may be let in.',
    schema: { type: 'integer', minimum: 0 },
  },
  'retry-after-ms': {
    description: 'The same in milliseconds.',
    schema: { type: 'integer', minimum: 0 },
  },
  'x-should-retry': {
    description: '`false` where the same request would fail again.',
    schema: { const: 'false' },
  },
};

function paths(operations: readonly Operation[]): Json {
  const byPath: Record<string, Record<string, unknown>> = {};
  for (const operation of operations) {
    const item = byPath[operation.path] ?? {};
    item[operation.method] = describe(operation);
    byPath[operation.path] = item;
  }
  return byPath;
}

const security: Readonly<Record<string, Json>> = {
  admin: { security: [{ adminKey: [] }] },
  false: { security: [] },
};
const commonErrors: Readonly<Record<string, readonly ErrorName[]>> = {
  admin: adminErrors,
  true: securedErrors,
};

function describe(operation: Operation): Json {
  const { id, tag, summary, description, secured, parameters, request, response } = operation;
  const required = operation.requestOptional !== true;
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(description === undefined ? {} : { description }),
    ...security[String(secured)],
    ...(parameters === undefined ? {} : { parameters: parameters.map(describeParameter) }),
    ...(request === undefined ? {} : { requestBody: { required, content: content([request]) } }),
    responses: {
      200: {
        description: response.description,
        headers: headerRefs(['x-request-id']),
        content: content(response.media),
      },
      ...errorResponses(
        [...(commonErrors[String(secured)] ?? []), ...operation.errors],
        operation.errorForm ?? { schema: 'Error', example: errorExample },
      ),
    },
  };
}

function describeParameter(parameter: Parameter): Json {
  const { name, required, description, schema, style } = parameter;
  const written = style === undefined ? {} : { style, explode: true };
  return { name, in: parameter.in, required: required ?? false, description, schema, ...written };
}

function content(media: readonly Media[]): Json {
  return Object.fromEntries(
    media.map(({ type, schema, description, examples }) => [
      type,
      {
        schema: {
          ...(schema === null ? { type: 'string' } : { $ref: `#/components/schemas/${schema}` }),
          ...(description === undefined ? {} : { description }),
        },
        ...(examples === undefined ? {} : { examples: wrapped(examples) }),
      },
    ]),
  );
}

function wrapped(examples: Json): Json {
  return Object.fromEntries(Object.entries(examples).map(([name, value]) => [name, { value }]));
}

/** One response a status, with each of its rows as an example. */
function errorResponses(names: readonly ErrorName[], form: ErrorDescription): Json {
  const byStatus = new Map<number, ErrorName[]>();
  for (const name of new Set(names)) {
    const { status } = errorTable[name];
    byStatus.set(status, [...(byStatus.get(status) ?? []), name]);
  }
  return Object.fromEntries(
    [...byStatus].map(([status, rows]) => [status, errorResponse(status, rows, form)]),
  );
}

function errorResponse(status: number, names: readonly ErrorName[], form: ErrorDescription): Json {
  const rows: readonly ErrorRow[] = names.map((name) => errorTable[name]);
  const retry = status === 429 || status === 503 ? ['retry-after', 'retry-after-ms'] : [];
  const final = rows.some((row) => row.final) ? ['x-should-retry'] : [];
  return {
    description: [...new Set(rows.map((row) => `\`${row.type}\`: ${row.text}`))].join('\n\n'),
    headers: headerRefs(['x-request-id', ...retry, ...final]),
    content: {
      'application/json': {
        schema: { $ref: `#/components/schemas/${form.schema}` },
        examples: wrapped(Object.fromEntries(names.map((name) => [name, form.example(name)]))),
      },
    },
  };
}

function headerRefs(names: readonly string[]): Json {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}
