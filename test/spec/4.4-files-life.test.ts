/** Owns the proof of what happens to a file beside its requests: waiting, leaving, restarts, equal bytes, deletion. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { serve } from '../../src/main.js';
import { loadConfig } from '../../src/settings/config.js';
import { refusal } from '../support/chat-client.js';
import { CrashService } from '../support/crash-service.js';
import type { GatedDocument } from '../support/extractor-gated.js';
import {
  blobs,
  contentOf,
  extractionsDone,
  extractionsReading,
  gatedEnv,
  gateFile,
  listed,
  openGatedFiles,
  upload,
} from '../support/file-client.js';
import { aliceKey, bobKey, serviceEnv, temporaryFolder } from '../support/service.js';
import { until } from '../support/until.js';

const asBob = { authorization: `Bearer ${bobKey}` };
const authorization = { authorization: `Bearer ${aliceKey}` };

/** A document that is read once `open` is called. */
function gated(t: Test, more: GatedDocument = {}) {
  const gate = gateFile(t);
  return { bytes: JSON.stringify({ gate, ...more }), open: () => writeFileSync(gate, '') };
}

/** Waits until a reader has begun. */
function begun(url: string): Promise<unknown> {
  return until(async () => (await extractionsReading(url)) === 1);
}

t.test('content waits, and a client that leaves loses nothing', async (t) => {
  const service = await openGatedFiles(t);
  const document = gated(t, { text: 'at last' });
  const { id, status } = await upload(service, document.bytes, 'a.gated');
  t.equal(status, 'ok');
  const leave = new AbortController();
  const left = fetch(`${service.url}/files/${id}/content`, {
    headers: authorization,
    signal: leave.signal,
  }).catch((cause: Error) => cause.name);
  let ended = false;
  const waiting = contentOf(service, id).finally(() => {
    ended = true;
  });
  await begun(service.url);
  leave.abort();
  t.equal(await left, 'AbortError');
  t.notOk(ended);
  document.open();
  t.strictSame(await waiting, {
    content: 'at last',
    file_type: 'text/x-gated',
    filename: 'a.gated',
    title: 'A title',
    type: 'file',
  });
  t.equal(await extractionsDone(service.url), 1);
});

t.test('equal bytes of one owner are read once, and each text lives for itself', async (t) => {
  const service = await openGatedFiles(t);
  const document = gated(t, { text: 'shared' });
  const same = await Promise.all(
    [1, 2, 3].map((n) => upload(service, document.bytes, `${n}.gated`)),
  );
  await begun(service.url);
  document.open();
  for (const { id, filename } of same) {
    t.match(await contentOf(service, id), { content: 'shared', filename });
  }
  const later = await upload(service, document.bytes, 'later.gated');
  t.match(await contentOf(service, later.id), { content: 'shared' });
  t.equal(await extractionsDone(service.url), 1);
  for (const { id } of same) await service.call('DELETE', `/files/${id}`);
  t.match(await contentOf(service, later.id), { content: 'shared' });
  const bobs = await upload(service, document.bytes, 'later.gated', asBob);
  t.match(await contentOf(service, bobs.id, asBob), { content: 'shared' });
  t.equal(await extractionsDone(service.url), 2, 'of another owner they are read again');
});

t.test('deleting the one that is read hands its place to the next', async (t) => {
  const service = await openGatedFiles(t);
  const document = gated(t);
  const first = await upload(service, document.bytes);
  await begun(service.url);
  const second = await upload(service, document.bytes);
  const gone = service.call('GET', `/files/${first.id}/content`);
  t.equal((await service.call('DELETE', `/files/${first.id}`)).status, 200);
  t.equal((await gone).status, 404, 'who waits is told');
  document.open();
  t.match(await contentOf(service, second.id), { content: 'text' });
  t.same(blobs(service), [`${second.id}.source`, `${second.id}.text`]);
});

t.test('a refusal is shown by the file and by its content', async (t) => {
  const service = await openGatedFiles(t);
  const document = gated(t, { refusal: 'page 3 is torn' });
  const { id } = await upload(service, document.bytes);
  document.open();
  const found = await refusal(t, await service.call('GET', `/files/${id}/content`));
  t.match(found, { status: 500, type: 'server_error' });
  t.match(found.message, /^Failed to extract file: .*page 3 is torn/);
  t.match((await listed(service)).data, [{ status: 'error', status_details: /page 3 is torn/ }]);
});

t.test('a service that starts again goes on reading, and frees what has no record', async (t) => {
  const dataDir = temporaryFolder(t);
  const env = { ...serviceEnv(dataDir), ...gatedEnv };
  const start = () => serve(loadConfig({ flags: {}, env }), () => {});
  const document = gated(t, { text: 'after the restart' });
  const before = await start();
  const { id } = await upload(before, document.bytes);
  await begun(before.url);
  await before.close();
  writeFileSync(join(dataDir, 'files', `${'z'.repeat(20)}.source`), 'nobody’s');
  writeFileSync(join(dataDir, 'files', `${id}.text.part`), '"ha');
  document.open();
  const after = await start();
  t.teardown(() => after.close());
  const response = await fetch(`${after.url}/files/${id}/content`, { headers: authorization });
  t.match(await response.json(), { content: 'after the restart' });
  await until(() => blobs({ dataDir }).length === 2, undefined, 'nobody’s bytes are gone');
  t.same(blobs({ dataDir }), [`${id}.source`, `${id}.text`]);
});

t.test('an acknowledged upload survives a kill without a word', async (t) => {
  const dataDir = temporaryFolder(t);
  const first = new CrashService(dataDir, gatedEnv);
  const document = gated(t, { text: 'it survived' });
  const { id, filename } = await upload({ url: await first.url() }, document.bytes);
  await first.kill('all');
  document.open();
  const second = new CrashService(dataDir, gatedEnv);
  t.teardown(() => second.kill('all'));
  const url = await second.url();
  const response = await fetch(`${url}/files/${id}/content`, { headers: authorization });
  t.match(await response.json(), { content: 'it survived', filename });
});
