/**
 * Owns the proof that a service keeps the bytes of files in a bucket: through uploads, reading, restarts and faults.
 * It must look at the server's own folder, never ask the service what it holds.
 */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import type { WireFile } from '../../src/protocol/files.js';
import { blobs, contentOf, form, purpose, send, upload } from '../support/file-client.js';
import { skipPostgres, TestPostgres } from '../support/postgres.js';
import { S3Server, s3Key, s3Missing } from '../support/s3-server.js';
import { openService, temporaryFolder } from '../support/service.js';
import { startServiceProcess } from '../support/service-process.js';
import { until } from '../support/until.js';

t.setTimeout(300_000);

const skip = process.platform !== 'linux' && 'only Linux has /proc';
const cli = fileURLToPath(new URL('../../src/cli.js', import.meta.url));

/** A long text is parted into pages. */
const bare = (text: string) => text.replace(/\s+/g, '');

/** What it says, and in the last line its exit code. */
function preface(env: Record<string, string>, ...words: string[]): Promise<string> {
  const { PATH = '', HOME = '' } = process.env;
  const own = { PATH, HOME, PREFACE_ENGINE: 'echo', PREFACE_PORT: '0', ...env };
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [cli, ...words], { env: own }, (_error, out, err) =>
      resolve(`${out}${err}exit ${child.exitCode}\n`),
    );
  });
}

t.test('the bytes of files in a bucket', { skip: s3Missing }, async (t) => {
  const postgres = skipPostgres ? null : await TestPostgres.start(t);
  t.test('uploads, texts, equal bytes, deletes and a restart on an empty disk', async (t) => {
    const server = await S3Server.start(t);
    const first = await openService(t, server.env());
    // Two parts and a rest; hexadecimal lines, which no reader changes.
    const text = `${randomBytes(30).toString('hex')}\n`.repeat(180_000).trim();
    const ids: string[] = [];
    for (let round = 0; round < 2; round += 1) ids.push((await upload(first, text)).id);
    for (const id of ids) t.ok(bare((await contentOf(first, id)).content) === bare(text), id);
    const all = ids.flatMap((id) => [`${id}.source`, `${id}.text`]).sort();
    t.same(server.objects(), all);
    t.same(blobs(first), [], 'nothing is left on the disk');
    t.match(first.log.join('\n'), /kept in s3:\/\/bucket\/p\//);
    await first.close();
    writeFileSync(join(server.folder, 'bucket/p/orphan.source'), 'of an upload that had no end');

    const second = await openService(t, { ...server.env(), PREFACE_DATA_DIR: first.dataDir });
    await until(() => server.objects().length === all.length, undefined, 'what no record explains');
    t.same(server.objects(), all, 'what no record explains is removed');
    const [gone = '', kept = ''] = ids;
    await second.call('DELETE', `/files/${gone}`);
    t.ok(bare((await contentOf(second, kept)).content) === bare(text), kept);
    t.same(server.objects(), [`${kept}.source`, `${kept}.text`]);
    const secret = new RegExp(s3Key.secret.replace(/[+/]/g, '.'));
    t.notMatch([...first.log, ...second.log].join('\n'), secret);
  });

  t.test('a store that is down is a 503 with retry-after, and then it goes on', async (t) => {
    const server = await S3Server.start(t);
    const service = await openService(t, server.env());
    const { id } = await upload(service, 'before');
    t.equal((await contentOf(service, id)).content.trim(), 'before');
    await server.stop();
    for (const response of [
      await send(service, form([purpose, ['file', 'meanwhile', 'a.txt']])),
      await service.call('GET', `/files/${id}/content`),
    ]) {
      t.equal(response.status, 503);
      t.match(response.headers.get('retry-after'), /^\d+$/);
      t.match(await response.json(), { error: { message: /the object store cannot be reached/ } });
    }
    await server.run();
    t.equal((await contentOf(service, id)).content.trim(), 'before');
    t.equal(
      (await contentOf(service, (await upload(service, 'after')).id)).content.trim(),
      'after',
    );
  });

  t.test('a damaged object is named in the log, and its text is not given', async (t) => {
    const server = await S3Server.start(t);
    const service = await openService(t, server.env());
    const { id } = await upload(service, 'a text of some length');
    await contentOf(service, id);
    server.change(`${id}.text`);
    const response = await service.call('GET', `/files/${id}/content`);
    t.equal(response.status, 500);
    t.match(service.log.join('\n'), new RegExp(`the text of ${id} is damaged`));
  });

  t.test('kill -9 while files are uploaded loses none that was acknowledged', async (t) => {
    const server = await S3Server.start(t);
    const dataDir = temporaryFolder(t);
    const env = { ...server.env(), PREFACE_DATA_DIR: dataDir };
    const known = new Map<string, string>();
    for (let round = 0; round < 3; round += 1) {
      const service = await startServiceProcess(t, {}, env);
      const writers = Array.from({ length: 4 }, async () => {
        for (;;) {
          const text = randomBytes(200_000).toString('hex');
          const { id } = await upload(service, text);
          known.set(id, text);
          if (known.size >= 4 * (round + 1)) process.kill(service.pid, 'SIGKILL');
        }
      });
      await Promise.allSettled(writers);
      await service.ended;
    }
    const service = await openService(t, env);
    for (const [id, text] of known) {
      t.ok((await contentOf(service, id)).content.trim() === text, id);
    }
    t.ok(known.size >= 12, `${known.size} files`);
    const files = (await (await service.call('GET', '/files?limit=100')).json()) as {
      data: WireFile[];
    };
    const ids = files.data.map(({ id }) => id);
    const sources = server.objects().filter((name) => name.endsWith('.source'));
    t.same(sources, ids.map((id) => `${id}.source`).sort(), 'no object without a record');
    t.same(await server.client().openParts(), []);
  });

  t.test('the command line: doctor, backup, restore, and a key that is missing', async (t) => {
    const server = await S3Server.start(t);
    const service = await openService(t, server.env());
    const { id } = await upload(service, 'of the backup');
    await contentOf(service, id);
    const env = { ...server.env(), PREFACE_DATA_DIR: service.dataDir };
    const folder = join(temporaryFolder(t), 'backup');
    const bundle = join(temporaryFolder(t), 'bundle');
    const made = await preface(env, 'backup', folder);
    t.match(made, /not in it: the bytes of files stay in s3:\/\/bucket\/p\//);
    t.match(
      made,
      /in the bucket: 2 blobs of these records, .*looked for by name, not read[\s\S]*exit 0\n$/,
    );
    await service.close();
    const dataDir = join(temporaryFolder(t), 'data');
    t.match(await preface({ ...env, PREFACE_DATA_DIR: dataDir }, 'restore', folder), /exit 0\n$/);
    const restored = await openService(t, { ...server.env(), PREFACE_DATA_DIR: dataDir });
    t.equal((await contentOf(restored, id)).content.trim(), 'of the backup');
    await restored.close();

    t.match(await preface(env, 'doctor'), /s3:\/\/bucket\/p\/ takes, gives and removes objects/);
    const wrong = { ...env, AWS_SECRET_ACCESS_KEY: 'another' };
    t.match(await preface(wrong, 'doctor'), /403 SignatureDoesNotMatch[\s\S]*exit 1\n$/);
    t.match(await preface(wrong, 'serve'), /403 SignatureDoesNotMatch[\s\S]*exit 1\n$/);
    t.match(await preface({ ...env, AWS_ACCESS_KEY_ID: '' }, 'serve'), /PREFACE_BLOBS_KEY/);
    t.match(await preface(env, 'users', 'move', 'alice', '--out', bundle), /on their own disks/);
    t.same(server.objects(), [`${id}.source`, `${id}.text`], 'doctor leaves nothing');
  });

  t.test('backup, restore and doctor name what is missing or damaged in the bucket', async (t) => {
    const server = await S3Server.start(t);
    const service = await openService(t, server.env());
    const ids: string[] = [];
    for (const text of ['one', 'two', 'three']) ids.push((await upload(service, text)).id);
    for (const id of ids) await contentOf(service, id);
    const env = { ...server.env(), PREFACE_DATA_DIR: service.dataDir };
    const root = temporaryFolder(t);
    const backup = (name: string, ...words: string[]) =>
      preface(env, 'backup', join(root, name), ...words);
    t.match(
      await backup('whole', '--check-blobs'),
      /in the bucket: 6 blobs of these records, .* held against their checksums\nexit 0\n$/,
    );
    t.match(
      await preface(env, 'doctor', '--check-data'),
      /records and their blobs in s3:.* are whole/,
    );
    const [lost = '', changed = '', gone = ''] = ids;
    rmSync(join(server.folder, `bucket/p/${lost}.text`));
    server.change(`${changed}.source`);
    const asked = server.asked.length;
    const named = await backup('named');
    t.match(named, `the blob ${lost}.text in s3://bucket/p/`);
    t.match(named, /1 blobs are missing or damaged[\s\S]*exit 1\n$/);
    t.notMatch(named, changed, 'what is not read is not known');
    const reads = server.asked.slice(asked).filter((line) => /^GET .*\.(?:source|text)/.test(line));
    t.same(reads, [], 'and nothing is read');
    const other = 'has other bytes than it was written with';
    for (const said of [
      await backup('read', '--check-blobs'),
      await preface(env, 'doctor', '--check-data'),
    ]) {
      t.match(said, new RegExp(`the blob ${lost}.text in s3:\\S+ is not there`));
      t.match(said, new RegExp(`the blob ${changed}.source in s3:\\S+ ${other}`));
      t.notMatch(said, `${gone}.`);
      t.match(said, /exit 1\n$/);
    }
    await service.call('DELETE', `/files/${gone}`);
    const later = await upload(service, 'after the backup');
    await contentOf(service, later.id);
    await service.close();

    const into = (name: string) => ({ ...env, PREFACE_DATA_DIR: join(root, name) });
    const restored = await preface(into('a'), 'restore', join(root, 'whole'), '--check-blobs');
    for (const name of [`${lost}.text`, `${changed}.source`, `${gone}.source`, `${gone}.text`])
      t.match(restored, `the blob ${name} in s3://bucket/p/`);
    t.match(restored, /4 blobs are missing or damaged[\s\S]*exit 1\n$/);
    t.match(restored, /2 blobs that these records do not name: a service .* removes them/);
    t.same(server.objects().length, 5, 'and nothing was removed by looking');
    const bare = { PREFACE_BLOBS: '', PREFACE_DATA_DIR: join(root, 'b') };
    t.match(await preface(bare, 'restore', join(root, 'whole')), /the records want s3:\/\/bucket/);
    await server.stop();
    t.match(
      await preface(env, 'doctor', '--check-data'),
      /not all blobs in the bucket were read.*\s+→ correct PREFACE_BLOBS[\s\S]*exit 1\n$/,
    );
    t.match(await backup('blind'), /the bucket was not looked at: .*the object store cannot be/);
    t.ok(existsSync(join(root, 'blind/backup.json')), 'the records are there all the same');
  });

  t.test('what is deleted while it is looked for is not called missing', async (t) => {
    const server = await S3Server.start(t);
    const url = postgres === null ? null : await postgres.database();
    const stores = url === null ? [{}] : [{}, { PREFACE_STORE: url }];
    for (const store of stores) {
      const env = Object.assign({}, server.env(), store);
      const service = await openService(t, env);
      const own = Object.assign(env, { PREFACE_DATA_DIR: service.dataDir });
      const root = temporaryFolder(t);
      const looks = [['doctor', '--check-data']];
      if (!('PREFACE_STORE' in store)) looks.push(['backup', join(root, 'a'), '--check-blobs']);
      for (const words of looks) {
        const ids: string[] = [];
        for (const text of ['kept', 'gone']) ids.push((await upload(service, text)).id);
        for (const id of ids) await contentOf(service, id);
        const [kept = '', gone = ''] = ids;
        let answer: Promise<Response> | null = null;
        server.fault = async (method, path) => {
          if (method !== 'GET' || !path.includes(`${gone}.`)) return null;
          answer ??= service.call('DELETE', `/files/${gone}`);
          await answer;
          return null;
        };
        const said = await preface(own, ...words);
        t.match(said, /are whole|held against their checksums/, words.join(' '));
        t.notMatch(said, 'is not there');
        t.ok(answer, 'it was deleted meanwhile');
        rmSync(join(server.folder, `bucket/p/${kept}.text`));
        if (words[0] === 'backup') words[1] = join(root, 'b');
        const named = await preface(own, ...words);
        t.match(named, new RegExp(`${kept}.text in s3:\\S+ is not there[\\s\\S]*exit 1\\n$`));
        await service.call('DELETE', `/files/${kept}`);
      }
      await service.close();
      rmSync(join(server.folder, 'bucket/p'), { recursive: true });
    }
  });

  t.test(
    'doctor reads records in PostgreSQL and blobs in a bucket',
    { skip: skipPostgres },
    async (t) => {
      if (postgres === null) throw new Error(`${skipPostgres}`);
      const server = await S3Server.start(t);
      const url = await postgres.database();
      const env = Object.assign(server.env(), { PREFACE_STORE: url });
      const service = await openService(t, env);
      const { id } = await upload(service, 'in the bucket');
      await contentOf(service, id);
      const ask = "SELECT store_id FROM preface_parts WHERE part = 'records'";
      t.same(
        await postgres.ask(ask, url),
        [{ store_id: String(server.bytes('preface-owner')) }],
        'the bucket is marked as that of the database',
      );
      const own = Object.assign(env, { PREFACE_DATA_DIR: service.dataDir });
      t.match(
        await preface(own, 'doctor', '--check-data'),
        /their blobs in s3:.* are whole[\s\S]*exit 0\n$/,
      );
      server.change(`${id}.text`);
      t.match(
        await preface(own, 'doctor', '--check-data'),
        new RegExp(`${id}.text in s3:.* has other.*\\s+→ bring the object back[\\s\\S]*exit 1\\n$`),
      );
    },
  );

  t.test('what the system shows of the service has no key', { skip }, async (t) => {
    const server = await S3Server.start(t);
    const service = await startServiceProcess(t, {}, server.env());
    const shown = readFileSync(`/proc/${service.pid}/environ`, 'latin1');
    t.match(shown, /PREFACE_BLOBS=/);
    t.notOk(shown.includes(s3Key.secret));
    process.kill(service.pid, 'SIGTERM');
    await service.ended;
  });
});
