/**
 * Owns the name of the processor as far as it decides which kernels run: its model and what it can do.
 * It must never tell two machines apart that run the same kernels.
 */
import { readFile } from 'node:fs/promises';
import { arch, cpus } from 'node:os';

/** Flags are what Linux lists; elsewhere the model stands for them. */
export async function processorName(): Promise<string> {
  const text = await readFile('/proc/cpuinfo', 'utf8').catch(() => '');
  const flags = /^(?:flags|Features)\s*:\s*(.*)$/m.exec(text)?.[1] ?? '';
  return [arch(), cpus()[0]?.model ?? '', flags.split(' ').sort().join(' ')].join(' | ');
}
