/**
 * Owns the look at a file of weights before it is served, in a process of its own that a damaged file may end.
 * It must never load tensors.
 */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { engineEnvironment } from '../environment.js';
import { limits } from '../limits/index.js';
import type { WeightsReport } from '../plugin/contract.js';
import { builtInPath } from '../settings/built-in-plugins.js';
import type { Config } from '../settings/config.js';
import { libraryEnvironment } from '../weights/gpu-library.js';

export interface LookTask {
  readonly path: string;
  readonly engine: string;
  readonly tokenizer: string;
  /** In place of the file's own. */
  readonly template: string | null;
  /** Path of weights that are to guess for it. */
  readonly draft: string | null;
  readonly stateDir: string;
}

/** `report`: null where the file is damaged. `refusal`: why it cannot be served, or null. */
export interface WeightsLook {
  readonly report: WeightsReport | null;
  readonly refusal: string | null;
}

const CHILD = fileURLToPath(new URL('../cli/weights-look-child.js', import.meta.url));

export async function lookAtWeights(
  path: string,
  config: Pick<Config, 'dataDir' | 'gpu' | 'modelsDir'>,
  template: string | null = null,
  draft: string | null = null,
): Promise<WeightsLook> {
  const engine = builtInPath('engine-llama') ?? '';
  const tokenizer = builtInPath('tokenizer-gguf') ?? '';
  const task: LookTask = {
    path,
    engine,
    tokenizer,
    template,
    draft,
    stateDir: join(config.dataDir, 'engine'),
  };
  const options = {
    env: { ...engineEnvironment(process.env), ...libraryEnvironment(config) },
    timeout: limits.weightsLookMsMax,
    maxBuffer: limits.weightsLookBytesMax,
  };
  try {
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [CHILD, JSON.stringify(task)],
      options,
    );
    return JSON.parse(stdout) as WeightsLook;
  } catch (cause) {
    const { signal } = cause as Error & { signal?: string };
    const how = signal ? `was ended by ${signal}` : 'ended without a word';
    return { report: null, refusal: `${path} is damaged: the process that read it ${how}` };
  }
}
