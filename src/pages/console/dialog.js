/**
 * Owns the one dialog of the page.
 * It must never keep what it showed once it is closed.
 */
import { byId, element } from '../shared/dom.js';

/**
 * @param {string} title
 * @param {...Node} content
 */
export function openDialog(title, ...content) {
  const dialog = /** @type {HTMLDialogElement} */ (byId('dialog'));
  dialog.replaceChildren(element('h2', { id: 'dialog-title' }, title), ...content);
  if (!dialog.open) dialog.showModal();
}

export function closeDialog() {
  const dialog = /** @type {HTMLDialogElement} */ (byId('dialog'));
  dialog.close();
  dialog.replaceChildren();
}

/**
 * @param {string} title
 * @param {string} text what will happen
 * @param {string} act the word on the button
 * @param {() => Promise<unknown>} run
 */
export function confirmFirst(title, text, act, run) {
  const fault = element('p', { role: 'alert' });
  const go = element(
    'button',
    {
      type: 'button',
      class: 'danger',
      click: () => {
        run().then(closeDialog, (cause) => fault.replaceChildren(String(cause.message)));
      },
    },
    act,
  );
  const cancel = element('button', { type: 'button', click: closeDialog }, 'Cancel');
  openDialog(title, element('p', {}, text), fault, element('p', { class: 'controls' }, go, cancel));
}
