/**
 * Owns what is shown of a user's use by day.
 * It must never show another measure than the account is charged by.
 */
import { userPath } from '../shared/api.js';
import { button, drawn, element, numbers, table } from '../shared/dom.js';
import * as format from '../shared/format.js';
import { closeDialog, openDialog } from './dialog.js';

/** @typedef {import('../shared/api.js').Json} Json */

const DAYS = 31;

/**
 * @param {import('../shared/api.js').Api} api
 * @param {string} user
 */
export async function openUsage(api, user) {
  const { data } = await api.get(`${userPath(user)}/usage?days=${DAYS}`);
  const most = Math.max(...data.map(tokensOf), 1);
  openDialog(
    `What ${user} used`,
    table(
      `By day in UTC, the newest ${DAYS} days; days without a request are left out`,
      [{ title: 'Day' }, ...numbers('Requests', 'Tokens in', 'Out', 'Saved'), { title: 'Tokens' }],
      data.map((/** @type {Json} */ day) => [
        element('time', {}, day.date),
        format.count(day.requests),
        format.count(day.prompt_tokens),
        format.count(day.completion_tokens),
        format.count(day.cached_tokens ?? 0),
        share(tokensOf(day) / most),
      ]),
    ),
    element('p', { class: 'controls' }, button('Close', 'Close the usage', closeDialog)),
  );
}

/** @param {Json} day */
function tokensOf({ prompt_tokens: prompt, completion_tokens: completion }) {
  return prompt + completion;
}

/** @param {number} length 0…1 */
function share(length) {
  const rect = drawn('rect', { class: 'share', width: 1000 * length, height: 10 });
  const view = { viewBox: '0 0 1000 10', preserveAspectRatio: 'none', 'aria-hidden': 'true' };
  return drawn('svg', { ...view, class: 'stages' }, rect);
}
