/**
 * Owns the page as a whole: who is logged in, which view is open, and what went wrong.
 * It must never show anything before the server has taken the key.
 */
import { Api, Refused } from './api.js';
import { byId } from './dom.js';
import { Overview } from './overview.js';
import { cacheKind, fileKind, OwnedView } from './owned.js';
import { Playground } from './playground.js';
import { UsersView } from './users.js';

/** For this tab, until it is closed. */
const STORED = 'preface-admin-key';
const DEFAULT_VIEW = 'overview';

/** @typedef {{ show(): Promise<void>, follow?(failed: (fault: unknown) => void): void, leave?(): void }} View */

/** @type {Readonly<Record<string, View>> | null} */
let views = null;
/** @type {View | null} */
let open = null;

/** @param {Api} api */
function viewsFor(api) {
  return {
    overview: new Overview(api),
    caches: new OwnedView(api, cacheKind),
    files: new OwnedView(api, fileKind),
    users: new UsersView(api, failed),
    playground: new Playground(api, failed),
  };
}

/** @param {string} key */
async function logIn(key) {
  const api = new Api(key);
  await api.get('/admin/v1/status');
  sessionStorage.setItem(STORED, key);
  views = viewsFor(api);
  byId('login').hidden = true;
  byId('views').hidden = false;
  byId('leave').hidden = false;
  await turn();
}

function logOut() {
  sessionStorage.removeItem(STORED);
  // What was shown is gone with the page, and with it the key in memory.
  location.reload();
}

async function turn() {
  if (views === null) return;
  const wanted = location.hash.slice(1);
  const name = Object.hasOwn(views, wanted) ? wanted : DEFAULT_VIEW;
  open?.leave?.();
  open = views[name] ?? null;
  for (const each of Object.keys(views)) byId(each).hidden = each !== name;
  for (const link of byId('views').querySelectorAll('a')) {
    if (link.hash === `#${name}`) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  byId('message').replaceChildren();
  await open?.show();
  open?.follow?.(failed);
}

/** @param {unknown} fault */
function failed(fault) {
  if (fault instanceof Refused && fault.status === 401 && views === null) {
    showLogin('That is not the admin key.');
    return;
  }
  byId('message').textContent = fault instanceof Error ? fault.message : String(fault);
}

/** @param {string} text */
function showLogin(text) {
  sessionStorage.removeItem(STORED);
  byId('login').hidden = false;
  byId('message').textContent = text;
  byId('key').focus();
}

byId('login').addEventListener('submit', (event) => {
  event.preventDefault();
  const input = /** @type {HTMLInputElement} */ (byId('key'));
  const { value } = input;
  input.value = '';
  byId('message').replaceChildren();
  logIn(value).catch(failed);
});
byId('leave').addEventListener('click', logOut);
addEventListener('hashchange', () => turn().catch(failed));

const stored = sessionStorage.getItem(STORED);
if (stored === null) showLogin('');
else logIn(stored).catch(failed);
