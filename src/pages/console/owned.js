/**
 * Owns the views of what users keep: context caches and files, of one user or of all.
 * It must never show more users at once than it asks for at a time.
 */
import { userPath } from './api.js';
import { byId, element, table } from './dom.js';
import * as format from './format.js';

/** @typedef {import('./api.js').Json} Json */

const USERS_MAX = 100;
const OF_EACH_MAX = 20;
const OF_ONE_MAX = 100;
const AT_ONCE = 6;

/**
 * @typedef {object} Kind
 * @property {'caches' | 'files'} name
 * @property {readonly import('./dom.js').Column[]} columns
 * @property {(item: Json) => import('./dom.js').Child[]} cells
 */

/** @type {Kind} */
export const cacheKind = {
  name: 'caches',
  columns: [
    { title: 'Cache' },
    { title: 'Tags' },
    { title: 'Status' },
    { title: 'Tokens', number: true },
    { title: 'Saved', number: true },
    { title: 'Hits', number: true },
    { title: 'Time left', number: true },
    { title: 'Last miss' },
  ],
  cells: (cache) => [
    element('span', { title: cache.id }, cache.name === '' ? cache.id : cache.name),
    cache.tags.join(', ') || '–',
    state(cache.status, cache.error?.message),
    format.count(cache.tokens),
    format.count(cache.tokens_saved),
    format.count(cache.hits),
    cache.status === 'inactive' ? '–' : format.duration(cache.expired_at - Date.now() / 1000),
    cache.last_miss_reason ?? '–',
  ],
};

/** @type {Kind} */
export const fileKind = {
  name: 'files',
  columns: [
    { title: 'File' },
    { title: 'Size', number: true },
    { title: 'Extraction' },
    { title: 'Why' },
    { title: 'Uploaded' },
  ],
  cells: (file) => [
    element('span', { title: file.id }, file.filename),
    format.bytes(file.bytes),
    state(file.status),
    file.status_details || '–',
    format.ago(file.created_at),
  ],
};

export class OwnedView {
  /**
   * @param {import('./api.js').Api} api
   * @param {Kind} kind
   */
  constructor(api, kind) {
    this.api = api;
    this.kind = kind;
    /** Empty: of all users. */
    this.user = '';
  }

  async show() {
    const { data: users, has_more: more } = await this.api.get(
      `/admin/v1/users?limit=${USERS_MAX}`,
    );
    const names = users.map((/** @type {Json} */ { id }) => id);
    const found = this.user === '' ? await this.ofAll(names) : await this.of(this.user, OF_ONE_MAX);
    const note =
      more && this.user === ''
        ? element('p', {}, `The first ${USERS_MAX} users; name a user to see theirs.`)
        : null;
    byId(`${this.kind.name}-view`).replaceChildren(
      this.chooser(names),
      ...(note === null ? [] : [note]),
      table(
        this.user === '' ? `Newest of each user` : `Of ${this.user}`,
        [{ title: 'User' }, ...this.kind.columns],
        found.map(({ user, item }) => [user, ...this.kind.cells(item)]),
      ),
    );
  }

  /** @param {readonly string[]} names */
  async ofAll(names) {
    /** @type {{ user: string, item: Json }[]} */
    const all = [];
    for (let from = 0; from < names.length; from += AT_ONCE) {
      const some = names.slice(from, from + AT_ONCE).map((name) => this.of(name, OF_EACH_MAX));
      all.push(...(await Promise.all(some)).flat());
    }
    return all.sort((a, b) => b.item.created_at - a.item.created_at);
  }

  /**
   * @param {string} user
   * @param {number} limit
   * @returns {Promise<{ user: string, item: Json }[]>}
   */
  async of(user, limit) {
    const { data } = await this.api.get(`${userPath(user)}/${this.kind.name}?limit=${limit}`);
    return data.map((/** @type {Json} */ item) => ({ user, item }));
  }

  /** @param {readonly string[]} names */
  chooser(names) {
    const id = `${this.kind.name}-user`;
    const options = names.map((name) =>
      element('option', { value: name, selected: name === this.user }, name),
    );
    const select = element(
      'select',
      { id },
      element('option', { value: '' }, 'all users'),
      ...options,
    );
    select.addEventListener('change', () => {
      this.user = /** @type {HTMLSelectElement} */ (select).value;
      this.again();
    });
    return element(
      'p',
      { class: 'controls' },
      element('label', { for: id }, 'User'),
      select,
      element('button', { type: 'button', click: () => this.again() }, 'Refresh'),
    );
  }

  again() {
    this.show().catch((fault) => byId('message').replaceChildren(String(fault.message)));
  }
}

/**
 * @param {string} status
 * @param {string} [why]
 */
function state(status, why) {
  return element(
    'span',
    { class: `state ${status}`, ...(why === undefined ? {} : { title: why }) },
    status,
  );
}
