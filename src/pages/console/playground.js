/**
 * Owns the playground: one question asked twice, on a text the server has not seen and on a cache of it.
 * It must never ask both at once: they would take each other's time.
 */
import { Api } from './api.js';
import { byId, element } from './dom.js';
import * as format from './format.js';
import { streamChat } from './stream.js';

/** @typedef {import('./api.js').Json} Json */

const TTL_S = 300;
const READY_MS_MAX = 120_000;
const LOOK_MS = 250;
const SAMPLE = 'The light on the rock is kept by two people and a dog. '.repeat(60);

export class Playground {
  /**
   * @param {Api} api
   * @param {(fault: unknown) => void} failed
   */
  constructor(api, failed) {
    this.api = api;
    this.failed = failed;
    this.built = false;
  }

  async show() {
    if (this.built) return;
    const { models } = await this.api.get('/admin/v1/status');
    this.built = true;
    const form = element(
      'form',
      {
        class: 'playground',
        submit: (event) => {
          event.preventDefault();
          void this.run(form);
        },
      },
      field(
        'API key of a user',
        element('input', { id: 'play-key', type: 'password', autocomplete: 'off', required: true }),
      ),
      field(
        'Model',
        element(
          'select',
          { id: 'play-model' },
          // A cache is made for a family of models.
          ...models.map((/** @type {Json} */ { id, family }) =>
            element('option', { value: id, 'data-family': family }, id),
          ),
        ),
      ),
      field(
        'Text that many chats begin with',
        element('textarea', { id: 'play-text', rows: 8, required: true }, SAMPLE),
      ),
      field(
        'Question',
        element('input', { id: 'play-question', value: 'Who keeps the light?', required: true }),
      ),
      element(
        'p',
        { class: 'controls' },
        element('button', { type: 'submit', id: 'play-ask' }, 'Ask twice'),
      ),
    );
    byId('playground-view').replaceChildren(
      form,
      element(
        'div',
        { class: 'sides' },
        side('cold', 'Without a cache'),
        side('warm', 'With a cache'),
      ),
    );
  }

  /** @param {HTMLElement} form */
  async run(form) {
    const ask = /** @type {HTMLButtonElement} */ (byId('play-ask'));
    ask.disabled = true;
    try {
      await compare(inputs(form));
    } catch (fault) {
      this.failed(fault);
    } finally {
      ask.disabled = false;
    }
  }
}

/**
 * @typedef {object} Inputs
 * @property {Api} api with the user's key
 * @property {string} model
 * @property {string} family of the model, by which caches are made
 * @property {string} text
 * @property {string} question
 */

/**
 * @param {HTMLElement} form
 * @returns {Inputs}
 */
function inputs(form) {
  const value = (/** @type {string} */ id) => {
    const found = /** @type {HTMLInputElement | null} */ (form.querySelector(`#${id}`));
    return found?.value ?? '';
  };
  const models = /** @type {HTMLSelectElement | null} */ (form.querySelector('#play-model'));
  return {
    api: new Api(value('play-key')),
    family: models?.selectedOptions[0]?.dataset.family ?? '',
    model: value('play-model'),
    text: value('play-text'),
    question: value('play-question'),
  };
}

/** @param {Inputs} inputs */
async function compare({ api, model, family, text, question }) {
  const asked = { role: 'user', content: question };
  // The server reuses what the same user's prompts began with; the first words of this one are new each time.
  const unseen = { role: 'system', content: `Run ${crypto.randomUUID()}.\n${text}` };
  clear('cold');
  clear('warm');
  await answer('cold', api, { model, messages: [unseen, asked] });
  const prefix = [{ role: 'system', content: text }];
  say('warm', 'creating the cache …');
  const cache = await ready(
    api,
    await api.post('/v1/caching', { model: family, messages: prefix, ttl: TTL_S }),
  );
  await answer('warm', api, {
    model,
    messages: [{ role: 'cache', content: `cache_id=${cache.id}` }, asked],
  });
}

/**
 * @param {Api} api
 * @param {Json} cache
 */
async function ready(api, cache) {
  const untilMs = performance.now() + READY_MS_MAX;
  let found = cache;
  while (found.status === 'pending' && performance.now() < untilMs) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    found = await api.get(`/v1/caching/${encodeURIComponent(cache.id)}`);
  }
  if (found.status === 'ready') return found;
  throw new Error(`the cache is ${found.status}: ${found.error?.message ?? 'it took too long'}`);
}

/**
 * @param {'cold' | 'warm'} name
 * @param {Api} api
 * @param {object} chat
 */
async function answer(name, api, chat) {
  say(name, 'waiting for the first token …');
  const output = byId(`${name}-text`);
  const { firstContentMs, usage, cacheStatus } = await streamChat(api, chat, (piece) =>
    output.append(piece),
  );
  const cached = usage?.prompt_tokens_details?.cached_tokens ?? 0;
  byId(`${name}-time`).textContent =
    firstContentMs === null ? '–' : format.milliseconds(firstContentMs);
  say(
    name,
    `${format.count(cached)} of ${format.count(usage?.prompt_tokens ?? 0)} prompt tokens reused` +
      (cacheStatus === null ? '' : `; cache: ${cacheStatus}`),
  );
}

/** @param {'cold' | 'warm'} name */
function clear(name) {
  byId(`${name}-time`).textContent = '–';
  byId(`${name}-text`).replaceChildren();
  say(name, '');
}

/**
 * @param {'cold' | 'warm'} name
 * @param {string} text
 */
function say(name, text) {
  byId(`${name}-note`).textContent = text;
}

/**
 * @param {string} title
 * @param {HTMLElement} input
 */
function field(title, input) {
  return element('p', {}, element('label', { for: input.id }, title), input);
}

/**
 * @param {'cold' | 'warm'} name
 * @param {string} title
 */
function side(name, title) {
  return element(
    'section',
    { class: 'side', 'aria-labelledby': `${name}-title` },
    element('h3', { id: `${name}-title` }, title),
    element('p', {}, element('strong', { id: `${name}-time` }, '–'), ' to first content'),
    element('p', { id: `${name}-note`, role: 'status' }),
    element('pre', {
      id: `${name}-text`,
      role: 'region',
      tabindex: 0,
      'aria-label': `Answer ${title.toLowerCase()}`,
    }),
  );
}
