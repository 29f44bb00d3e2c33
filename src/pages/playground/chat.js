/**
 * Owns what the page asks for, as data: the beginning that a cache can hold, and the request of a chat.
 * It must stay pure: the snippets are made of the same data as the requests.
 */

/** @typedef {import('../shared/api.js').Json} Json */
/** @typedef {{ readonly id: string, readonly name: string, readonly text: string }} ContextFile */

/**
 * @typedef {object} Setup
 * @property {string} model
 * @property {string} family of the model, by which caches are made
 * @property {string} system
 * @property {readonly ContextFile[]} files
 * @property {readonly Json[]} tools
 * @property {string} toolChoice
 * @property {Json | null} format
 * @property {Readonly<Record<string, number | string[]>>} parameters those that were set
 */

export const CACHE_TTL_S = 600;

/**
 * The messages that every chat of the page begins with: the documents, then the instructions.
 * @template Text
 * @param {Setup} setup
 * @param {(file: ContextFile) => Text} textOf
 */
export function prefixOf({ files, system }, textOf) {
  return [
    ...files.map((file) => ({ role: 'system', content: textOf(file) })),
    ...(system.trim() === '' ? [] : [{ role: 'system', content: system }]),
  ];
}

/** A cache of nothing would save nothing. @param {Setup} setup */
export function isCacheable({ files, system, tools }) {
  return files.length > 0 || system.trim() !== '' || tools.length > 0;
}

/** What stands beside the messages, in the cache and in the chat. @param {Setup} setup */
export function toolsOf({ tools }) {
  return tools.length === 0 ? {} : { tools };
}

/** What a chat has besides. @param {Setup} setup */
export function optionsOf({ tools, toolChoice, format, parameters }) {
  const chosen = tools.length > 0 && toolChoice !== 'auto';
  return {
    ...(chosen ? { tool_choice: toolChoice } : {}),
    ...(format === null ? {} : { response_format: format }),
    ...parameters,
  };
}

/** @param {Setup} setup @param {readonly Json[]} messages */
export function chatOf(setup, messages) {
  const prefix = prefixOf(setup, ({ text }) => text);
  return {
    model: setup.model,
    messages: [...prefix, ...messages],
    ...toolsOf(setup),
    ...optionsOf(setup),
  };
}

/** @param {Setup} setup */
export function cacheOf(setup) {
  return {
    model: setup.family,
    messages: prefixOf(setup, ({ text }) => text),
    ...toolsOf(setup),
    ttl: CACHE_TTL_S,
  };
}

const AUTO = '-auto';

/**
 * The family of a model, of which `FAMILY-auto` is always listed.
 * @param {string} model
 * @param {readonly string[]} listed
 */
export function familyOf(model, listed) {
  if (model.endsWith(AUTO)) return model.slice(0, -AUTO.length);
  const families = listed
    .filter((id) => id.endsWith(AUTO))
    .map((id) => id.slice(0, -AUTO.length))
    .sort((a, b) => b.length - a.length);
  const own = families.find((family) => model === family || model.startsWith(`${family}-`));
  return own ?? families[0] ?? model;
}
