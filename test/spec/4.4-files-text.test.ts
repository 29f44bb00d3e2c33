/**
 * Owns the proof that extracted text counts: towards what its owner may keep, and against a bound of its own.
 * It must read real documents in real processes.
 */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { limits } from '../../src/limits/index.js';
import { bigSheet } from '../support/big-sheet.js';
import { refusal } from '../support/chat-client.js';
import { contentOf, form, listed, purpose, send, upload } from '../support/file-client.js';
import { openService, type TestService } from '../support/service.js';

t.setTimeout(240_000);

const MIB = 2 ** 20;
const adminKey = 'the-key-of-the-operator';

function diskBytes({ dataDir }: TestService): number {
  const folder = join(dataDir, 'files');
  return readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
}

async function grant(service: TestService, fields: object): Promise<void> {
  const response = await fetch(`${service.url.slice(0, -3)}/admin/v1/users/alice`, {
    method: 'POST',
    headers: { authorization: `Bearer ${adminKey}` },
    body: JSON.stringify(fields),
  });
  if (response.status !== 200) throw new Error(await response.text());
}

/** Reading is over, whatever came of it. */
async function read(service: TestService, id: string): Promise<string> {
  const response = await service.call('GET', `/files/${id}/content`);
  await response.arrayBuffer();
  const { data } = await listed(service);
  return data.find((file) => file.id === id)?.status_details ?? 'gone';
}

t.test('a small file does not become a large text', async (t) => {
  const service = await openService(t);
  const sheet = bigSheet(100 * MIB);
  t.ok(sheet.length < 64 * 1024, `${sheet.length} bytes`);
  const { id } = await upload(service, sheet, 'a.xlsx');
  const reason = await read(service, id);
  const { extractionTextBytesMin: min, extractionTextRatioMax: ratio } = limits;
  const max = min + ratio * sheet.length;
  t.equal(
    reason,
    `its text has more than ${max} bytes, the most that is kept of a file of ${sheet.length} bytes`,
  );
  t.equal(diskBytes(service), sheet.length, 'nothing is left of the text');
});

t.test(
  'texts count with their uploads, also after a restart, until they are deleted',
  async (t) => {
    const service = await openService(t, { PREFACE_ADMIN_KEY: adminKey });
    const sheet = bigSheet(MIB);
    const first = await upload(service, sheet, 'a.xlsx');
    t.equal(await read(service, first.id), 'sheets: 1');
    const taken = diskBytes(service);
    t.ok(taken > MIB, `${sheet.length} bytes became ${taken}`);

    await grant(service, { file_bytes: taken + 3 });
    const over = await refusal(t, await send(service, form([purpose, ['file', 'four', 'b.txt']])));
    t.match(over.message, /exceeded the max total size 10G/);
    const second = await upload(service, 'xyz', 'b.txt');
    t.equal(
      await read(service, second.id),
      `its text does not fit: your files and their texts together may have at most ${taken + 3} bytes; delete some files, then upload it again`,
    );
    t.equal(diskBytes(service), taken + 3);
    await service.call('DELETE', `/files/${second.id}`);
    await service.close();

    const next = await openService(t, {
      PREFACE_ADMIN_KEY: adminKey,
      PREFACE_DATA_DIR: service.dataDir,
    });
    const again = await refusal(t, await send(next, form([purpose, ['file', 'four', 'b.txt']])));
    t.match(again.message, /exceeded the max total size 10G/);
    await next.call('DELETE', `/files/${first.id}`);
    const third = await upload(next, sheet, 'c.xlsx');
    t.equal(await read(next, third.id), 'sheets: 1');
    await next.call('DELETE', `/files/${third.id}`);
    t.equal(diskBytes(service), 0);
  },
);

t.test('many at once stay below what their owner may keep', async (t) => {
  const service = await openService(t, { PREFACE_ADMIN_KEY: adminKey });
  const max = 4 * MIB;
  await grant(service, { file_bytes: max });
  const sent = Array.from({ length: 8 }, (_, i) => upload(service, bigSheet(MIB, i), `${i}.xlsx`));
  const reasons = await Promise.all((await Promise.all(sent)).map(({ id }) => read(service, id)));
  const kept = reasons.filter((reason) => reason === 'sheets: 1').length;
  t.equal(kept, 3, 'three texts of more than a mebibyte and all uploads fit');
  t.ok(diskBytes(service) <= max, `${diskBytes(service)} bytes`);
  const { data } = await listed(service);
  for (const { id } of data) await service.call('DELETE', `/files/${id}`);
  const { id } = await upload(service, bigSheet(3 * MIB), 'a.xlsx');
  t.equal(await read(service, id), 'sheets: 1', 'all room is there again');
});

t.test('what is kept is told to the operator', async (t) => {
  const service = await openService(t, { PREFACE_ADMIN_KEY: adminKey });
  const { id } = await upload(service, 'words', 'a.txt');
  t.equal((await contentOf(service, id)).content, 'words');
  const user = await fetch(`${service.url.slice(0, -3)}/admin/v1/users/alice`, {
    headers: { authorization: `Bearer ${adminKey}` },
  });
  t.match(await user.json(), { kept: { files: 1, file_bytes: 'words'.length + '"words"'.length } });
  const figures = await fetch(`${service.url.slice(0, -3)}/metrics`);
  t.match(await figures.text(), /preface_disk_bytes\{[^}]*"files"\} 12\n/);
});
