/**
 * Uploads files, lists them to the end, reads their text and deletes them, through the Node SDK named on the command
 * line; prints one JSON line a step. It must never import anything of the service.
 */
import assert from 'node:assert/strict';
import { createReadStream, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type OpenAI from 'openai';

type Sdk = typeof OpenAI & { readonly toFile: typeof import('openai').toFile };

const [packageName = 'openai'] = process.argv.slice(2);
const { default: sdk, toFile } = (await import(packageName)) as { default: Sdk } & Sdk;
const baseURL = `${process.env.FILES_URL}`;
const client = new sdk({ baseURL, apiKey: `${process.env.API_KEY}`, timeout: 60_000 });
const COUNT = 23;
/** The SDK's types know only its vendor's purposes. */
const purpose = 'file-extract' as 'assistants';

/** Renamed between the majors. */
async function remove(id: string): Promise<boolean> {
  const files = client.files as unknown as Record<
    'del' | 'delete',
    ((id: string) => Promise<{ deleted: boolean }>) | undefined
  >;
  const name = files.delete === undefined ? 'del' : 'delete';
  return (await files[name]?.(id))?.deleted === true;
}

async function contentOf(id: string): Promise<Record<string, string>> {
  const response = await client.files.content(id);
  return JSON.parse(await response.text()) as Record<string, string>;
}

async function create(text: string, name: string) {
  const file = await toFile(Buffer.from(text), name);
  return await client.files.create({ file, purpose });
}

const steps = {
  async uploadAndRead() {
    const path = join(mkdtempSync(join(tmpdir(), 'preface-sdk-')), 'grüße.txt');
    writeFileSync(path, 'Words of a file. 世界');
    const made = await client.files.create({ file: createReadStream(path), purpose });
    assert.equal(made.filename, 'grüße.txt');
    assert.equal(made.status as string, 'ok');
    assert.deepEqual(await contentOf(made.id), {
      content: 'Words of a file. 世界',
      file_type: 'text/plain',
      filename: 'grüße.txt',
      title: '',
      type: 'file',
    });
    assert.equal((await client.files.retrieve(made.id)).id, made.id);
    assert.ok(await remove(made.id));
  },
  async listToTheEnd() {
    const made = new Set<string>();
    for (let n = 0; n < COUNT; n += 1) made.add((await create(`number ${n}`, `${n}.txt`)).id);
    const seen: string[] = [];
    for await (const { id } of client.files.list()) seen.push(id);
    assert.equal(seen.length, COUNT);
    assert.deepEqual(new Set(seen), made);
    for (const id of made) {
      assert.match((await contentOf(id)).content ?? '', /^number /);
      assert.ok(await remove(id));
    }
    assert.deepEqual((await client.files.list()).data, []);
  },
  async refusals() {
    const file = await toFile(Buffer.from('x'), 'a.txt');
    await assert.rejects(client.files.create({ file, purpose: 'assistants' }), { status: 400 });
    await assert.rejects(create('', 'a.txt'), { status: 400 });
    await assert.rejects(client.files.retrieve('0'.repeat(20)), { status: 404 });
    const blank = await create('  ', 'blank.txt');
    await assert.rejects(client.files.content(blank.id), /Failed to extract file/);
    assert.ok(await remove(blank.id));
  },
};

for (const [step, act] of Object.entries(steps)) {
  const beganMs = performance.now();
  const error = await act().then(
    () => undefined,
    (cause: unknown) => (cause instanceof Error ? cause.stack : String(cause)),
  );
  const ms = performance.now() - beganMs;
  console.log(JSON.stringify({ step, ok: error === undefined, ms, error }));
}
console.log(JSON.stringify({ step: 'end', ok: true, ms: 0 }));
