/**
 * Owns where the libraries for GPUs lie: beside the weights, for every service of the machine.
 * It must never install one.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';

export type GpuKind = 'vulkan' | 'cuda';

export const gpuFolder = (modelsDir: string, kind: GpuKind) => join(modelsDir, 'gpu', kind);

/** Package names by kind and platform; the first brings the library. */
export function gpuPackages(kind: GpuKind): string[] {
  const system = process.platform === 'win32' ? 'win' : process.platform;
  const name = `@node-llama-cpp/${system}-${process.arch}-${kind}`;
  return kind === 'cuda' ? [name, `${name}-ext`] : [name];
}

/** @returns the folder of the library, or null where it is not installed. */
export function gpuLibrary(modelsDir: string, kind: GpuKind): string | null {
  const [name = ''] = gpuPackages(kind);
  const platform = name.split('/')[1] ?? '';
  const folder = join(gpuFolder(modelsDir, kind), 'node_modules', name, 'bins', platform);
  return existsSync(folder) ? folder : null;
}

/** For the processes that load the library: none for the processor's own. @throws Error where it was not brought yet. */
export function libraryEnvironment({
  gpu,
  modelsDir,
}: {
  readonly gpu: 'off' | GpuKind;
  readonly modelsDir: string;
}): Record<string, string> {
  if (gpu === 'off') return {};
  const folder = gpuLibrary(modelsDir, gpu);
  if (folder === null) throw new Error(`PREFACE_GPU=${gpu}: run \`preface gpu add ${gpu}\` first`);
  return { LLAMA_LIBRARY: folder };
}
