/**
 * Owns how a test acts as the operator: the admin key, calls of the admin API, and answers held against the API's document.
 * It must never take an answer that the document does not describe.
 */
import { Ajv2020 } from 'ajv/dist/2020.js';

export const adminKey = 'the-key-of-the-operator';

/** What opens the admin API. */
export const asOperator = { PREFACE_ADMIN_KEY: adminKey } as const;

interface Place {
  /** Ends in `/v1`. */
  readonly url: string;
}

interface Described {
  readonly responses: Readonly<Record<string, { content: Record<string, { schema: Schema }> }>>;
}
interface Schema {
  readonly $ref: string;
}
interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>;
}

/** `path` is absolute, such as `/admin/v1/users`. */
export function askOperator(
  { url }: Place,
  method: string,
  path: string,
  body?: unknown,
  key = adminKey,
): Promise<Response> {
  return fetch(new URL(path, url), {
    method,
    headers: { authorization: `Bearer ${key}` },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

export interface Operator {
  ask(method: string, path: string, body?: unknown, key?: string): Promise<Response>;
  /** An answer that is as the document says. @throws Error when it is a refusal or does not fit. */
  told<Value>(path: string, method?: string, body?: unknown): Promise<Value>;
}

export async function operatorOf(place: Place): Promise<Operator> {
  const document = (await (await fetch(new URL('/openapi.json', place.url))).json()) as Document;
  const ajv = new Ajv2020({ strict: false }).addSchema(document, 'api');
  return {
    ask: (method, path, body, key) => askOperator(place, method, path, body, key),
    async told<Value>(path: string, method = 'GET', body?: unknown): Promise<Value> {
      const response = await askOperator(place, method, path, body);
      const text = await response.text();
      if (response.status !== 200) throw new Error(`${method} ${path}: ${text}`);
      if (response.headers.get('cache-control') !== 'no-store')
        throw new Error(`${method} ${path} may be stored`);
      const value = JSON.parse(text) as Value;
      const check = ajv.getSchema(`api${schemaOf(document, method, path).$ref}`);
      if (!check?.(value))
        throw new Error(`${method} ${path} is not as described: ${JSON.stringify(check?.errors)}`);
      return value;
    },
  };
}

function schemaOf({ paths }: Document, method: string, path: string): Schema {
  const asked = path.replace(/\?.*/, '').split('/');
  const found = Object.keys(paths).find((described) => {
    const parts = described.split('/');
    return (
      parts.length === asked.length &&
      parts.every((part, i) => part.startsWith('{') || part === asked[i])
    );
  });
  const schema =
    paths[found ?? '']?.[method.toLowerCase()]?.responses['200']?.content['application/json']
      ?.schema;
  if (schema === undefined) throw new Error(`the document does not describe ${method} ${path}`);
  return schema;
}
