/**
 * Owns what is shown of files: their size, and what was read of them and how.
 * It must never show a text of a document.
 */
import { element, moment, state } from '../shared/dom.js';
import * as format from '../shared/format.js';

/** @type {import('./owned.js').Kind} */
export const fileKind = {
  name: 'files',
  columns: [
    { title: 'User' },
    { title: 'File' },
    { title: 'Size', number: true },
    { title: 'Extraction' },
    { title: 'What was read, or why not' },
    { title: 'Uploaded' },
  ],
  cells: ({ user, item: file }) => [
    user,
    element('span', { title: file.id }, file.filename),
    format.bytes(file.bytes),
    state(file.status),
    file.status_details || '–',
    moment(file.created_at, format.ago(file.created_at)),
  ],
  text: ({ user, item: { id, filename, status, status_details: details } }) =>
    [user, id, filename, status, details].join(' '),
  sorted: (all) => all,
  empty: 'No file yet. Users upload documents with POST /v1/files; the playground does so, too.',
  below: async () => [],
};
