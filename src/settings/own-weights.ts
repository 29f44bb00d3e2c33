/**
 * Owns the reading of `--weights`: files of a person's own, by path, by address or by their place on the public model hub.
 * It must never look whether a file is there.
 */
import { homedir } from 'node:os';
import { basename } from 'node:path';
import { path, words } from './kinds.js';
import { pluginFinder } from './plugins.js';
import { type Kind, SettingPath } from './setting-path.js';
import type { WeightsConfig } from './weights-table.js';

/** One file, under the id of the model that it becomes. */
export interface OwnWeights {
  readonly id: string;
  readonly weights: WeightsConfig;
}

const HUB = 'https://huggingface.co';
const COUNT_MAX = 64;
const ID_LENGTH_MAX = 120;

export function ownWeights(): Kind<readonly OwnWeights[]> {
  return {
    allowed: `at most ${COUNT_MAX} GGUF files, separated by commas: paths, https addresses or hf:owner/repo/file.gguf`,
    read(raw, at) {
      const sources = words(raw);
      if (sources === undefined || sources.length > COUNT_MAX) return undefined;
      const files = sources.map((source) => weightsOf(source, at));
      return files.every((file) => file !== undefined) ? named(files) : undefined;
    },
  };
}

/** One file. */
export function ownWeight(): Kind<WeightsConfig> {
  return {
    allowed: 'a GGUF file: a path, an https address or hf:owner/repo/file.gguf',
    read: (raw, at) => (typeof raw === 'string' ? weightsOf(raw, at) : undefined),
  };
}

/** What a command is given, in no setting. @throws Error where it is none of the forms. */
export function readOwnWeight(source: string): WeightsConfig {
  const folders = { folder: process.cwd(), homeDir: homedir() };
  const origin = { name: 'argument', ...folders, plugins: pluginFinder, readFile: () => '' };
  const kind = ownWeight();
  const spec = kind.read(source, new SettingPath('file', origin));
  if (spec === undefined) throw new Error(`got ${source}, allowed: ${kind.allowed}`);
  return spec;
}

/** @param source as a person writes it. @returns undefined where it is none of the forms. */
export function weightsOf(source: string, at: SettingPath): WeightsConfig | undefined {
  if (source.startsWith('hf:')) return fromHub(source);
  if (/^https?:/.test(source)) return fromAddress(source);
  const file = source.endsWith('.gguf') ? path().read(source, at) : undefined;
  return file === undefined ? undefined : { ...NOTHING, file };
}

const NOTHING = { bytes: null, sha256: null, url: null, wheel: null };

function fromHub(source: string): WeightsConfig | undefined {
  const form = /^hf:([\w.-]+)\/([\w.-]+?)(?:@([\w.-]+))?\/((?:[\w.-]+\/)*([\w.-]+\.gguf))$/;
  const [, owner, repo, revision = 'main', inside, file] = form.exec(source) ?? [];
  if (file === undefined || source.includes('..')) return undefined;
  const url = `${HUB}/${owner}/${repo}/resolve/${revision}/${inside}`;
  return { ...NOTHING, file: `${owner}--${repo}--${file}`.slice(-200), url };
}

function fromAddress(source: string): WeightsConfig | undefined {
  if (!URL.canParse(source)) return undefined;
  const { pathname, username, password } = new URL(source);
  const file = /^[\w.-]{1,195}\.gguf$/.exec(decoded(basename(pathname)))?.[0];
  // An address is shown in logs and errors.
  if (file === undefined || username !== '' || password !== '') return undefined;
  return { ...NOTHING, file, url: source };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Each id once: of two files of one name the second gets a number. */
function named(files: readonly WeightsConfig[]): OwnWeights[] {
  const taken = new Set<string>();
  return files.map((weights) => {
    const name = modelIdOf(weights.file);
    let id = name;
    for (let number = 2; taken.has(id); number += 1) id = `${name}-${number}`;
    taken.add(id);
    return { id, weights };
  });
}

/** The file's name, without its folder, the repository it came from, its ending and the number of its first part. */
function modelIdOf(file: string): string {
  const name = basename(file).replace(/\.gguf$/, '');
  const short = (name.split('--').at(-1) ?? name).replace(/-00001-of-\d{5}$/, '');
  return short.replace(/[^\w.:-]+/g, '-').slice(0, ID_LENGTH_MAX) || 'model';
}
