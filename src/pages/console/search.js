/**
 * Owns the search within what a view has loaded.
 * It must never ask the server.
 */
import { element, labelled } from '../shared/dom.js';

/**
 * @param {string} view
 * @param {(words: string) => void} changed
 */
export function searchField(view, changed) {
  const input = element('input', {
    id: `${view}-search`,
    type: 'search',
    autocomplete: 'off',
    spellcheck: 'false',
    input: (event) => changed(/** @type {HTMLInputElement} */ (event.target).value),
  });
  return labelled('Search', input);
}

/** Whether every word is in the text, in any case and order. @param {string} words @param {string} text */
export function wordsIn(words, text) {
  const lower = text.toLowerCase();
  return words
    .toLowerCase()
    .split(/\s+/)
    .every((word) => lower.includes(word));
}
