/**
 * Owns the commands about models and their weights.
 * It must never load a model: only the engine process does.
 */
import { basename } from 'node:path';
import { systemClock } from '../clock.js';
import type { Config, WeightsConfig } from '../settings/config.js';
import { inspectWeights } from '../weights/checksum.js';
import { ensureWeights, weightsPath } from '../weights/index.js';
import { type Progress, progressOn, sizeText } from '../weights/progress.js';

export async function listedModels(config: Config): Promise<Record<string, string>[]> {
  const progress = progressOn(process.stderr, systemClock);
  const states = new Map<string | null, string>([[null, 'needs none']]);
  for (const [name, spec] of usedWeights(config)) {
    states.set(name, await stateOf(spec, config, progress));
  }
  return config.models.map(({ id, family, window, engine, weights }) => ({
    id,
    family,
    window: String(window),
    engine: engineName(engine),
    weights: states.get(weights) ?? '',
  }));
}

/** The built-in ones by their name: a plugin is one file, or the `index.js` of a folder. */
function engineName(module: string): string {
  return basename(module.replace(/(\/index)?\.js$/, ''));
}

async function stateOf(spec: WeightsConfig, config: Config, progress: Progress): Promise<string> {
  const found = await inspectWeights(weightsPath(spec, config.modelsDir), spec, progress);
  const size = spec.bytes === null ? '' : ` (${sizeText(spec.bytes)})`;
  return `${spec.file}${size} ${found.state}`;
}

function usedWeights({ models, weights }: Config): [name: string, spec: WeightsConfig][] {
  return Object.entries(weights).filter(([name]) => models.some((model) => model.weights === name));
}

/** @returns the paths of all weights. */
export async function pullWeights(config: Config, force: boolean): Promise<string[]> {
  const progress = progressOn(process.stderr, systemClock);
  const paths: string[] = [];
  for (const [, spec] of usedWeights(config)) {
    paths.push(await ensureWeights(spec, config.modelsDir, progress, { force }));
  }
  return paths;
}
