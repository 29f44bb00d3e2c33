/**
 * What the official SDKs make of content review: their exception for a rejected input, and for a stream that breaks off.
 */
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type OpenAI from 'openai';
import t from 'tap';
import { openWithSettings } from '../support/chat-client.js';
import { aliceKey, temporaryFolder } from '../support/service.js';
import { compiledOnce, pythonVenv, pythonVersions } from './python-venv.js';

t.setTimeout(300_000);

const file = join(temporaryFolder(t), 'terms.txt');
writeFileSync(file, 'badword\nknock knock knock\n');
const service = await openWithSettings(t, { filters: [`words=${file}`] });
const text = 'The request was rejected because it was considered high risk';
const model = 'svc-v1-8k';

for (const name of ['openai4', 'openai']) {
  t.test(`Node SDK ${name}`, async (t) => {
    const { default: Sdk } = (await import(name)) as { default: typeof OpenAI };
    const client = new Sdk({ baseURL: service.url, apiKey: aliceKey });
    const messages = (content: string) => [{ role: 'user' as const, content }];
    const rejected = client.chat.completions.create({ model, messages: messages('badword') });
    const error = await rejected.then(
      () => null,
      (cause: unknown) => cause,
    );
    t.ok(error instanceof Sdk.BadRequestError);
    t.match(error, { status: 400, type: 'content_filter', message: new RegExp(text) });
    const stream = await client.chat.completions.create({
      model,
      messages: messages('/repeat knock '),
      max_tokens: 60,
      stream: true,
    });
    let shown = '';
    const broken = async () => {
      for await (const { choices } of stream) shown += choices[0]?.delta.content ?? '';
    };
    await t.rejects(broken(), { message: /high risk/ });
    t.equal(shown, '');
  });
}

const script = `
import openai, sys
client = openai.OpenAI(base_url=sys.argv[1], api_key=sys.argv[2])
ask = lambda text, **more: client.chat.completions.create(
    model="svc-v1-8k", messages=[{"role": "user", "content": text}], **more)
try:
    ask("badword")
    sys.exit("was not rejected")
except openai.BadRequestError as error:
    assert error.status_code == 400, error
    assert error.response.json()["error"]["type"] == "content_filter", error
shown = []
try:
    for chunk in ask("/repeat knock ", stream=True, max_tokens=60):
        shown.extend(choice.delta.content or "" for choice in chunk.choices)
    sys.exit("came to its end")
except openai.APIError as error:
    assert not isinstance(error, openai.APIConnectionError), error
assert "".join(shown) == "", shown
print("ok")
`;

t.test('Python SDKs', async (t) => {
  for (const [name, packages] of Object.entries(pythonVersions)) {
    const venv = await pythonVenv(name, packages);
    const skip = 'missing' in venv ? venv.missing : false;
    await t.test(name, { skip }, async (t) => {
      if (!('python' in venv)) return;
      const args = ['-c', script, service.url, aliceKey];
      const options = { timeout: 120_000, env: { ...process.env, ...compiledOnce } };
      const { stdout } = await promisify(execFile)(venv.python, args, options);
      t.equal(stdout.trim(), 'ok');
    });
  }
});
