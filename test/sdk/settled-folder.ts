/**
 * Owns how a folder that takes long to make comes to its place: whole, or not at all.
 * It must never replace a folder that is ready, since another run may be at work in it.
 */
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export function isReady(folder: string): boolean {
  return existsSync(join(folder, '.ready'));
}

/** Made beside its place, and moved there. Of two runs that make the same one, the second throws its own away. */
export async function settledFolder(
  folder: string,
  make: (made: string) => Promise<void>,
): Promise<void> {
  if (isReady(folder)) return;
  const made = `${folder}.of-${process.pid}`;
  const remove = (each: string) => rmSync(each, { recursive: true, force: true });
  try {
    remove(made);
    mkdirSync(made, { recursive: true });
    await make(made);
    writeFileSync(join(made, '.ready'), '');
    try {
      renameSync(made, folder);
    } catch (cause) {
      const { code = '' } = cause as NodeJS.ErrnoException;
      if (!['ENOTEMPTY', 'EEXIST'].includes(code) || isReady(folder)) throw cause;
      // What an interrupted run left in its place is not to be trusted.
      remove(folder);
      renameSync(made, folder);
    }
  } catch (cause) {
    if (!isReady(folder)) throw cause;
  } finally {
    remove(made);
  }
}
