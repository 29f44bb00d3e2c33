/** Owns the proof of the bounds of uploads: size, count, sum, broken ones, and that none of it costs memory. */
import { execFile } from 'node:child_process';
import { readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { limits } from '../../src/limits/index.js';
import { openWithSettings, refusal } from '../support/chat-client.js';
import { blobs, contentOf, form, listed, purpose, send, upload } from '../support/file-client.js';
import { RawClient, request } from '../support/raw-client.js';
import { aliceKey, bobKey, openService, temporaryFolder } from '../support/service.js';
import { until } from '../support/until.js';

const run = promisify(execFile);
const asBob = { authorization: `Bearer ${bobKey}` };
const MIB = 2 ** 20;
const invalid = { status: 400, type: 'invalid_request_error' };
const tooLarge =
  'File size is too large, max file size is 100MB, please confirm and re-upload the file';

/** A form around a file of so many bytes, in pieces, with no length declared. */
function streamed(fileBytes: number): { body: ReadableStream; headers: Record<string, string> } {
  const head = `--xx\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nfile-extract\r\n--xx\r\nContent-Disposition: form-data; name="file"; filename="big.txt"\r\n\r\n`;
  const piece = Buffer.alloc(64 * 1024, 'some words \n');
  let left = fileBytes;
  let begun = false;
  const body = new ReadableStream({
    pull(control) {
      if (!begun) {
        begun = true;
        control.enqueue(Buffer.from(head));
      } else if (left > 0) {
        control.enqueue(piece.subarray(0, Math.min(left, piece.length)));
        left -= piece.length;
      } else {
        control.enqueue(Buffer.from('\r\n--xx--\r\n'));
        control.close();
      }
    },
  });
  return { body, headers: { 'content-type': 'multipart/form-data; boundary=xx' } };
}

t.test('the bounds of each owner are those of the API', async (t) => {
  const { fileBytesMax, fileBytesPerOwnerMax, filesPerOwnerMax } = limits;
  t.same(
    { fileBytesMax, fileBytesPerOwnerMax, filesPerOwnerMax },
    { fileBytesMax: 100 * 2 ** 20, fileBytesPerOwnerMax: 10 * 2 ** 30, filesPerOwnerMax: 1000 },
  );
});

t.test('100 MB go to the disk in pieces, one byte more is refused', async (t) => {
  const service = await openService(t);
  const before = process.memoryUsage().rss;
  let peak = before;
  const timer = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage().rss);
  }, 20);
  t.teardown(() => clearInterval(timer));
  const { body, headers } = streamed(limits.fileBytesMax);
  const response = await send(service, body, headers);
  clearInterval(timer);
  t.equal(response.status, 200);
  const made = (await response.json()) as { id: string; bytes: number };
  t.equal(made.bytes, 100 * MIB);
  t.ok(peak - before < 80 * MIB, `grew by ${(peak - before) / MIB} MiB, client included`);
  t.equal(statSync(join(service.dataDir, 'files', `${made.id}.source`)).size, 100 * MIB);
  t.equal((await service.call('DELETE', `/files/${made.id}`)).status, 200);
  t.same(blobs(service), [], 'also one that is being read is freed at once');

  const more = streamed(limits.fileBytesMax + 1);
  const refused = await refusal(t, await send(service, more.body, more.headers));
  t.match(refused, { ...invalid, message: tooLarge });
  t.ok(await until(() => blobs(service).length === 0));
});

t.test('a length that is too large is refused before it is sent', async (t) => {
  const service = await openService(t);
  const client = new RawClient(Number(new URL(service.url).port));
  t.teardown(() => client.destroy());
  const bytes = limits.fileBytesMax + limits.uploadFormBytesMax + 1;
  client.send(
    request('POST /v1/files', [
      `Authorization: Bearer ${aliceKey}`,
      'Content-Type: multipart/form-data; boundary=xx',
      `Content-Length: ${bytes}`,
    ]),
  );
  const answer = await client.answer('}}');
  t.match(answer, /^HTTP\/1\.1 400 /);
  t.ok(answer.includes(tooLarge));
});

t.test('curl: with Expect, and chunked', async (t) => {
  const service = await openService(t);
  const path = join(temporaryFolder(t), 'b.txt');
  const sent = 'word '.repeat(MIB);
  writeFileSync(path, sent);
  const common = [
    '-sS',
    '-m',
    '120',
    '-w',
    '\n%{time_total}',
    '-H',
    `Authorization: Bearer ${aliceKey}`,
  ];
  const parts = ['-F', `file=@${path}`, '-F', 'purpose=file-extract', `${service.url}/files`];
  for (const header of ['Expect: 100-continue', 'Transfer-Encoding: chunked']) {
    const { stdout } = await run('curl', [...common, '-H', header, ...parts]);
    const [text = '', seconds = ''] = stdout.split('\n');
    t.match(JSON.parse(text), { bytes: 5 * MIB, filename: 'b.txt', status: 'ok' }, header);
    t.comment(`${header}: ${seconds} s`);
    const { id } = JSON.parse(text) as { id: string };
    const answer = await run('curl', [...common, `${service.url}/files/${id}/content`], {
      maxBuffer: 2 * sent.length,
    });
    const [read = ''] = answer.stdout.split('\n');
    const { content } = JSON.parse(read) as { content: string };
    // Not by `t.equal`: its complaint would show five megabytes twice.
    t.ok(content === sent, `${header}: all of ${content.length} characters are what was sent`);
  }
});

t.test('an upload that breaks off leaves nothing', async (t) => {
  const service = await openService(t);
  const head =
    '--xx\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nhalf of ';
  for (const end of ['reset', 'cut'] as const) {
    const client = new RawClient(Number(new URL(service.url).port));
    t.teardown(() => client.destroy());
    const bytes = end === 'cut' ? Buffer.byteLength(head) : 10_000;
    client.send(
      request(
        'POST /v1/files',
        [
          `Authorization: Bearer ${aliceKey}`,
          'Content-Type: multipart/form-data; boundary=xx',
          `Content-Length: ${bytes}`,
        ],
        head,
      ),
    );
    if (end === 'cut') {
      t.match(await client.answer('}}'), /400 .*the form cannot be read/s);
    } else {
      t.ok(await until(() => blobs(service).length === 1));
      client.destroy();
    }
    t.ok(await until(() => blobs(service).length === 0), end);
  }
  t.same((await listed(service)).data, []);
});

t.test('count and sum are bounds of each owner, also for uploads at once', async (t) => {
  const service = await openWithSettings(t, {
    limits: { filesPerOwner: 3, fileBytesPerOwner: 1000 },
  });
  const fileCount =
    'The number of files you have uploaded exceeded the max file count 3, please delete previous uploaded files';
  const all = await Promise.all(
    Array.from({ length: 12 }, (_, i) =>
      send(service, form([purpose, ['file', `words ${i}`, 'a.txt']])),
    ),
  );
  t.equal(all.filter(({ status }) => status === 200).length, 3);
  for (const response of all.filter(({ status }) => status !== 200)) {
    t.match(await refusal(t, response), { ...invalid, message: fileCount });
  }
  const kept = (await listed(service)).data;
  t.equal(kept.length, 3);
  for (const { id } of kept) await contentOf(service, id);
  t.equal(readdirSync(join(service.dataDir, 'files')).length, 6);
  await upload(service, 'of another owner', 'a.txt', asBob);

  for (const { id } of kept) await service.call('DELETE', `/files/${id}`);
  const first = await upload(service, 'x'.repeat(300));
  await contentOf(service, first.id);
  // Its text is 302 bytes of JSON.
  const over = await refusal(
    t,
    await send(service, form([purpose, ['file', 'y'.repeat(399), 'a']])),
  );
  t.match(over, {
    ...invalid,
    message:
      'The total size of the files you have uploaded exceeded the max total size 10G, please delete previous uploaded files',
  });
  const second = await upload(service, 'y'.repeat(398));
  const content = await service.call('GET', `/files/${second.id}/content`);
  t.equal(content.status, 500, 'its text has no room');
  await service.call('DELETE', `/files/${first.id}`);
  await upload(service, 'z'.repeat(600));
});

t.test('a thousand files are the bound unless the settings lower it', async (t) => {
  const service = await openService(t);
  const { filesPerOwnerMax } = limits;
  let left = filesPerOwnerMax;
  const work = async () => {
    // Equal bytes are read once, so that nothing waits for a thousand readings.
    while (left-- > 0) await upload(service, 'the same words');
  };
  await Promise.all(Array.from({ length: 8 }, work));
  const over = await refusal(t, await send(service, form([purpose, ['file', 'x', 'a']])));
  const message = `The number of files you have uploaded exceeded the max file count ${filesPerOwnerMax}, please delete previous uploaded files`;
  t.match(over, { ...invalid, message });
  const [last] = (await listed(service)).data;
  await service.call('DELETE', `/files/${last?.id}`);
  await upload(service, 'there is room again');
});

t.test('while too many documents wait, an upload is told when to come back', async (t) => {
  const { gatedEnv, gateFile } = await import('../support/file-client.js');
  const service = await openWithSettings(t, {}, gatedEnv);
  const gate = gateFile(t);
  t.teardown(() => writeFileSync(gate, ''));
  const { extractionQueueOwnerMax: max, uploadsRunningOwnerMax: atOnce } = limits;
  let refused: Response | null = null;
  for (let i = 0; i < max + atOnce && refused === null; i += 1) {
    const bytes = JSON.stringify({ gate, text: String(i) });
    const response = await send(service, form([purpose, ['file', bytes, 'a']]));
    if (response.status !== 200) refused = response;
  }
  t.equal(refused?.headers.get('retry-after'), '1');
  if (refused) {
    t.match(await refusal(t, refused), { status: 429, type: 'engine_overloaded_error' });
  }
  const bobs = await upload(service, '{}', 'of another', asBob);
  writeFileSync(gate, '');
  t.match(await contentOf(service, bobs.id, asBob), { content: 'text' }, 'owners take turns');
});
