/**
 * Owns the proof of the wire shapes of files.
 * It must never need a socket or a disk.
 */
import t from 'tap';
import { systemRandom } from '../../src/clock.js';
import { limits } from '../../src/limits/index.js';
import { contentForm } from '../../src/protocol/content-forms.js';
import { isFileId } from '../../src/protocol/file-id.js';
import {
  checkFilename,
  checkFilePart,
  checkPurpose,
  file,
  fileList,
  fileListSchema,
  parseFileQuery,
} from '../../src/protocol/files.js';
import { ItemIds } from '../../src/protocol/item-id.js';
import { compile } from '../../src/protocol/schema.js';
import { apiError } from '../support/api-error.js';

const ok = { status: 'ok', details: '' } as const;
const kind = { purpose: 'file-extract' } as const;
const shown = { id: 'f1', bytes: 3, createdS: 7, filename: 'a', ...kind, ...ok };

t.test('the object, the list and its ends', async (t) => {
  t.match(file(shown), { status: 'ok', status_details: '', purpose: 'file-extract' });
  t.match(file({ ...shown, status: 'error', details: 'why' }), {
    status: 'error',
    status_details: 'why',
  });
  const list = fileList([shown, { ...shown, id: 'f2' }], true);
  t.ok(compile(fileListSchema)(list));
  t.match(list, { has_more: true, first_id: 'f1', last_id: 'f2' });
  t.match(fileList([], false), { has_more: false, first_id: null, last_id: null });
});

t.test('the content is JSON, whatever the names hold', async (t) => {
  const names = { fileType: 'text/plain', filename: '"\u0000\u202e\\😀', title: '"}' };
  const { head, tail } = contentForm('text', { ...names, details: '' });
  t.same(JSON.parse(`${head}${JSON.stringify('te"xt')}${tail}`), {
    content: 'te"xt',
    file_type: 'text/plain',
    type: 'file',
    filename: names.filename,
    title: names.title,
  });
});

t.test('the query', async (t) => {
  t.match(parseFileQuery('limit=3&after=x'), { limit: 3, after: 'x', purposeExists: true });
  t.equal(parseFileQuery('purpose=file-extract').purposeExists, true);
  t.match(parseFileQuery('purpose=batch'), { purpose: 'batch', purposeExists: true });
  t.equal(parseFileQuery('purpose=vision').purposeExists, false);
  t.throws(() => parseFileQuery('purpose=a&purpose=a'), apiError('invalidRequest'));
});

t.test('the fields of an upload', async (t) => {
  t.equal(checkPurpose('file-extract'), 'file-extract');
  t.equal(checkPurpose('batch'), 'batch');
  t.throws(() => checkPurpose('fine-tune'), apiError('invalidPurpose'));
  t.throws(() => checkPurpose(null), apiError('invalidRequest'));
  t.equal(checkFilename('\u0000é'.repeat(9)).length, 18);
  checkFilename('é'.repeat(limits.filenameBytesMax / 2));
  t.throws(
    () => checkFilename(`é${'é'.repeat(limits.filenameBytesMax / 2)}`),
    apiError('invalidRequest'),
  );
  checkFilePart('file', 1);
  t.throws(() => checkFilePart('file', 2), apiError('invalidRequest'));
  t.throws(() => checkFilePart('document', 1), apiError('invalidRequest'));
});

t.test('ids', async (t) => {
  t.ok(isFileId(new ItemIds(systemRandom).next('alice', Date.now())));
  for (const id of ['', '../../../../etc/pass', 'A'.repeat(20), 'a'.repeat(21)]) {
    t.notOk(isFileId(id));
  }
});
