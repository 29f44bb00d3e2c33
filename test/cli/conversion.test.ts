/**
 * Owns the proof that weights are converted once, measured before they are chosen, and never served half or from other content.
 * It must never judge how quick a type is: that differs by machine and hour.
 */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { convertForThisMachine } from '../../src/cli/conversion.js';
import { examine } from '../../src/cli/doctor.js';
import { modelInfo } from '../../src/cli/own-model-commands.js';
import { limits } from '../../src/limits/index.js';
import { type Config, loadConfig } from '../../src/settings/config.js';
import { convertedPath, readChoice, servedPath } from '../../src/weights/converted.js';
import { silentProgress } from '../../src/weights/progress.js';
import { TINY_TEMPLATE, writeTinyModel } from '../support/tiny-models.js';
import { skipWithoutWeights, smallModelPath } from '../support/weights.js';

t.setTimeout(300_000);

async function tiny(t: Test): Promise<{ folder: string; path: string }> {
  const folder = t.testdir({});
  const path = join(folder, 'tiny.gguf');
  await writeTinyModel(path, 'llama', { columns: 256, facts: [TINY_TEMPLATE] });
  return { folder, path };
}

async function convert(path: string, folder: string, quantize: string): Promise<string[]> {
  const env = { HOME: folder, PREFACE_MODELS_DIR: folder, PREFACE_WEIGHTS: path };
  const config = loadConfig({ flags: { quantize }, env });
  const lines: string[] = [];
  await convertForThisMachine(config, { ...silentProgress, line: (text) => lines.push(text) });
  return lines;
}

t.test('weights are converted once, and served where they are whole', async (t) => {
  const { folder, path } = await tiny(t);
  t.equal(servedPath(path, 'q8_0', folder), path, 'the original until then');
  const lines = await convert(path, folder, 'q8_0');
  t.match(lines.join('\n'), /converting .*tiny\.gguf.*\n.* is served as q8_0/);
  const converted = convertedPath(path, 'q8_0', folder);
  t.equal(servedPath(path, 'q8_0', folder), converted);
  t.equal(servedPath(path, 'keep', folder), path);
  t.ok(readFileSync(converted).length < 0.6 * readFileSync(path).length);
  t.same(readdirSync(join(folder, 'converted')).length, 1, 'nothing else is left');
  t.same(await convert(path, folder, 'q8_0'), [], 'the next start has nothing to do');
  utimesSync(path, 1, 1);
  t.equal(servedPath(path, 'q8_0', folder), path, 'another content is another conversion');
});

t.test('auto measures the original and each type, and notes what it chose', async (t) => {
  const { folder, path } = await tiny(t);
  await convert(path, folder, 'auto');
  const found = readChoice(path, folder);
  t.same(Object.keys(found?.measured ?? {}), ['keep', 'q8_0', 'q4_0']);
  for (const { promptPerS, streamPerS, loss } of Object.values(found?.measured ?? {}))
    t.ok(promptPerS > 0 && streamPerS > 0 && loss > 0);
  const choice = found?.choice ?? 'keep';
  const served = choice === 'keep' ? path : convertedPath(path, choice, folder);
  t.equal(servedPath(path, 'auto', folder), served);
  t.ok(existsSync(served));
  t.same(await convert(path, folder, 'auto'), [], 'it is measured once');
});

t.test(
  'what the types cost and a conversion would give is told once it was measured',
  async (t) => {
    const { folder, path } = await tiny(t);
    const env = { HOME: folder, PREFACE_MODELS_DIR: folder, PREFACE_WEIGHTS: path };
    const config = loadConfig({ flags: {}, env });
    t.match((await modelInfo(config, path)).speed, /^not yet measured on this machine: --measure/);
    t.match(
      await weightsLine(config),
      /other types not compared: `preface models info .* --measure`/,
    );
    const told = await modelInfo(config, path, true);
    const rates = String.raw`\d+ tokens/s of a prompt, \d+ of one stream`;
    const gain = String.raw`prompts \d+\.\d×, streams \d+\.\d×, perplexity × \d\.\d{3}`;
    t.match(told['as it is'], new RegExp(`^${rates}$`));
    t.match(told['as q8_0'], new RegExp(`^${rates}; ${gain}$`));
    t.match(told['as q4_0'], new RegExp(`^${rates}; ${gain}$`));
    t.match(told.advice, /^(no other type is worth it|PREFACE_QUANTIZE=q[48]_0 would pay)$/);
    t.same(await modelInfo(config, path), told, 'it is measured once, and kept');
    const line = await weightsLine(config);
    t.ok(line.includes(`; q8_0: ${told['as q8_0']?.split('; ')[1]}; q4_0: `), line);
    t.ok(line.endsWith(`; ${told.advice}`), line);
    t.equal(servedPath(path, 'keep', folder), path, 'nothing else is served for that');
  },
);

/** What the doctor says of the weights. */
async function weightsLine(config: Config): Promise<string> {
  const findings = await examine(() => config);
  return findings.find(({ check }) => check === 'weights')?.text ?? '';
}

t.test('a conversion that fails leaves the original in service', async (t) => {
  const folder = t.testdir({});
  const path = join(folder, 'm.gguf');
  writeFileSync(path, 'GGUF is not what follows');
  const lines = await convert(path, folder, 'q8_0');
  t.match(lines.join('\n'), /m\.gguf is served as it is: .*its header is not that of a GGUF/);
  t.equal(servedPath(path, 'q8_0', folder), path);
  t.same(readdirSync(join(folder, 'converted')), []);
});

t.test(
  'a choice that cannot be read, or names a file that is gone, serves the original',
  async (t) => {
    const { folder, path } = await tiny(t);
    mkdirSync(join(folder, 'converted'));
    const choice = (text: string) => {
      const { dir, name } = {
        dir: join(folder, 'converted'),
        name: convertedPath(path, 'q8_0', folder),
      };
      writeFileSync(
        join(dir, `${name.split('/').at(-1)?.replace('.q8_0.gguf', '')}.choice.json`),
        text,
      );
      return servedPath(path, 'auto', folder);
    };
    for (const text of ['', '{"choice":"q8_0"}', '{"choice":"q2_K"}'])
      t.equal(choice(text), path, text);
  },
);

t.test(
  'what auto chooses costs the default model little',
  { skip: skipWithoutWeights },
  async (t) => {
    const folder = t.testdir({});
    await convert(smallModelPath, folder, 'auto');
    const found = readChoice(smallModelPath, folder);
    const chosen = found?.measured[found.choice];
    const growth = Math.exp((chosen?.loss ?? 9) - (found?.measured.keep?.loss ?? 0));
    t.ok(growth <= limits.convertPerplexityMax, `${found?.choice}: perplexity × ${growth}`);
    t.comment(JSON.stringify(found));
  },
);
