/**
 * Owns the code that does what the page does: by curl, in Python, in Node.
 * It must never hold the key, nor the text of a document: both are read where the code runs.
 */
import { CACHE_TTL_S, isCacheable, optionsOf, prefixOf, toolsOf } from './chat.js';

/** @typedef {import('../shared/api.js').Json} Json */
/** @typedef {import('./chat.js').Setup} Setup */

/** Stands for itself in the code, where other values are written down. */
class Name {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
  }
}

/**
 * @typedef {object} Asked
 * @property {Setup} setup
 * @property {readonly Json[]} messages
 * @property {boolean} cached
 * @property {string} baseUrl ends in `/v1`
 */

export const languages = /** @type {const} */ ({ curl: curl, Python: python, Node: node });

/** @param {Asked} asked */
export function curl({ setup, messages, cached, baseUrl }) {
  const named = names(setup, (i) => `$FILE_${i}`);
  const auth = '-H "Authorization: Bearer $OPENAI_API_KEY"';
  const lines = [`# Needs jq. export OPENAI_BASE_URL=${baseUrl} OPENAI_API_KEY=…`];
  setup.files.forEach(({ id, name }, i) => {
    lines.push(
      `# ${oneLine(name)}`,
      `FILE_${i + 1}=$(curl -s $OPENAI_BASE_URL/files/${id}/content ${auth} | jq .content)`,
    );
  });
  const prefix = prefixOf(setup, named);
  if (cached && isCacheable(setup)) {
    const cache = {
      model: setup.family,
      messages: prefix,
      ...toolsOf(setup),
      ttl: CACHE_TTL_S,
    };
    lines.push(
      `CACHE=$(curl -s $OPENAI_BASE_URL/caching ${auth} -d @- <<${here(cache)} | jq -r .id`,
      ...body(cache),
      ')',
      `until curl -s $OPENAI_BASE_URL/caching/$CACHE ${auth} | jq -e '.status != "pending"' >/dev/null; do sleep 0.2; done`,
    );
  }
  const chat = {
    model: setup.model,
    messages: [...prefix, ...messages],
    ...toolsOf(setup),
    ...optionsOf(setup),
  };
  const header = cached && isCacheable(setup) ? ' -H "X-Svc-Context-Cache: $CACHE"' : '';
  lines.push(
    `curl -s $OPENAI_BASE_URL/chat/completions ${auth}${header} -d @- <<${here(chat)} | jq '.choices[0].message, .usage'`,
    ...body(chat),
  );
  return lines.join('\n');
}

/** A text with a variable in it must let the shell read it. @param {object} value */
function here(value) {
  return hasName(value) ? 'JSON' : "'JSON'";
}

/** @param {object} value */
function body(value) {
  return [written(value, 0, hasName(value) ? SHELL_WORDS : JSON_WORDS), 'JSON'];
}

/** By their name in the program, if there are any. @param {Asked['setup']} setup */
function namedTools({ tools }) {
  return tools.length > 0 ? { tools: new Name('tools') } : {};
}

/** The body of a cache of what comes before the chat. @param {Asked['setup']} setup */
function cacheOf(setup) {
  const messages = new Name('prefix');
  return { model: setup.family, messages, ...namedTools(setup), ttl: CACHE_TTL_S };
}

/** @param {Asked} asked */
export function python({ setup, messages, cached, baseUrl }) {
  const named = names(setup, (i) => `file_${i}`);
  const isCached = cached && isCacheable(setup);
  const lines = [
    `# export OPENAI_BASE_URL=${baseUrl} OPENAI_API_KEY=…`,
    ...(setup.files.length > 0 ? ['import json'] : []),
    ...(isCached ? ['import time'] : []),
    'from openai import OpenAI',
    '',
    'client = OpenAI()',
  ];
  setup.files.forEach(({ id, name }, i) => {
    const read = `json.loads(client.files.content(${JSON.stringify(id)}).text)["content"]`;
    lines.push(`file_${i + 1} = ${read}  # ${oneLine(name)}`);
  });
  const write = (/** @type {unknown} */ value) => written(value, 0, PYTHON_WORDS);
  lines.push(`prefix = ${write(prefixOf(setup, named))}`);
  if (setup.tools.length > 0) lines.push(`tools = ${write(setup.tools)}`);
  if (isCached) {
    const cache = cacheOf(setup);
    lines.push(
      `cache = client.post("/caching", cast_to=object, body=${write(cache)})`,
      'while cache["status"] == "pending":',
      '    time.sleep(0.2)',
      `    cache = client.get(f"/caching/{cache['id']}", cast_to=object)`,
    );
  }
  lines.push(
    'raw = client.chat.completions.with_raw_response.create(',
    `    model=${JSON.stringify(setup.model)},`,
    `    messages=prefix + ${write(messages)},`,
    ...(setup.tools.length > 0 ? ['    tools=tools,'] : []),
    ...Object.entries(optionsOf(setup)).map(([name, value]) => `    ${name}=${write(value)},`),
    ...(isCached ? ['    extra_headers={"X-Svc-Context-Cache": cache["id"]},'] : []),
    ')',
    'print(raw.parse().choices[0].message)',
    ...(isCached ? ['print(raw.headers.get("Svc-Context-Cache-Status"))'] : []),
  );
  return lines.join('\n');
}

/** @param {Asked} asked */
export function node({ setup, messages, cached, baseUrl }) {
  const named = names(setup, (i) => `file${i}`);
  const isCached = cached && isCacheable(setup);
  const write = (/** @type {unknown} */ value) => written(value, 0, JS_WORDS);
  const lines = [
    `// export OPENAI_BASE_URL=${baseUrl} OPENAI_API_KEY=…`,
    "import OpenAI from 'openai';",
    "import { withCaches } from 'preface/client';",
    '',
    'const client = withCaches(new OpenAI());',
  ];
  setup.files.forEach(({ id, name }, i) => {
    const read = `await client.fileText(${JSON.stringify(id)})`;
    lines.push(`const file${i + 1} = ${read}; // ${oneLine(name)}`);
  });
  lines.push(`const prefix = ${write(prefixOf(setup, named))};`);
  if (setup.tools.length > 0) lines.push(`const tools = ${write(setup.tools)};`);
  const tools = namedTools(setup);
  if (isCached) {
    const cache = cacheOf(setup);
    lines.push(
      `const cache = await client.caches.create(${write(cache)});`,
      'await client.caches.ready(cache.id);',
    );
  }
  const all = new Name(`[...prefix, ...${write(messages)}]`);
  const chat = { model: setup.model, messages: all, ...tools, ...optionsOf(setup) };
  lines.push(
    'const { data, response } = await client.chat.completions',
    `  .create(${write(chat)}${isCached ? ', client.caches.use(cache.id)' : ''})`,
    '  .withResponse();',
    'console.log(data.choices[0].message, client.caches.outcome(response));',
  );
  return lines.join('\n');
}

// --------------------------------------------------------------------- values

/** @param {Setup} setup @param {(place: number) => string} make counts from one */
function names({ files }, make) {
  return (/** @type {import('./chat.js').ContextFile} */ file) =>
    new Name(make(files.indexOf(file) + 1));
}

/** @param {unknown} value @returns {boolean} */
function hasName(value) {
  if (value instanceof Name) return true;
  return typeof value === 'object' && value !== null && Object.values(value).some(hasName);
}

/** A name of a file ends no comment. @param {string} text */
function oneLine(text) {
  return text.replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, ' ');
}

/**
 * How a language writes what is not a list or an object.
 * @typedef {object} Words
 * @property {(text: string) => string} string
 * @property {(name: string) => string} key
 * @property {Readonly<Record<string, string>>} constants
 */

const quoted = (/** @type {string} */ text) => JSON.stringify(text);

/** @type {Words} */
const JSON_WORDS = { string: quoted, key: quoted, constants: {} };
/** The shell reads these in a text with variables; the variables themselves stay. */
const forShell = (/** @type {string} */ text) => quoted(text).replace(/[\\$`]/g, '\\$&');

/** @type {Words} */
const SHELL_WORDS = { string: forShell, key: forShell, constants: {} };
/** @type {Words} */
const PYTHON_WORDS = {
  string: quoted,
  key: quoted,
  constants: { true: 'True', false: 'False', null: 'None' },
};
/** @type {Words} */
const JS_WORDS = {
  string: quoted,
  key: (name) => (/^[A-Za-z_]\w*$/.test(name) ? name : quoted(name)),
  constants: {},
};

const LINE_LENGTH = 100;

/**
 * @param {unknown} value
 * @param {number} depth
 * @param {Words} words
 * @returns {string}
 */
function written(value, depth, words) {
  if (value instanceof Name) return value.text;
  if (typeof value === 'string') return words.string(value);
  if (typeof value !== 'object' || value === null) {
    return words.constants[String(value)] ?? JSON.stringify(value);
  }
  const items = Array.isArray(value)
    ? value.map((item) => written(item, depth + 1, words))
    : Object.entries(value).map(
        ([name, item]) => `${words.key(name)}: ${written(item, depth + 1, words)}`,
      );
  const [open, close] = Array.isArray(value) ? '[]' : '{}';
  if (items.length === 0) return `${open}${close}`;
  const short = `${open}${items.join(', ')}${close}`;
  if (short.length + 2 * depth <= LINE_LENGTH && !short.includes('\n')) return short;
  const indent = '  '.repeat(depth + 1);
  return `${open}\n${items.map((item) => indent + item).join(',\n')}\n${'  '.repeat(depth)}${close}`;
}
