/**
 * Owns the note of which model's context was opened last, so that the next start opens it before anybody asks.
 * It must never let a context that ends the process be opened at the next start again.
 */
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const FILE = 'engine-llama-last-opened.json';

export class LastOpened {
  readonly #folder: string;
  readonly #file: string;

  constructor(stateDir: string) {
    this.#folder = stateDir;
    this.#file = join(stateDir, FILE);
  }

  /** Takes the note away: it is written again when that context is open. */
  async take(): Promise<string | null> {
    try {
      const text = await readFile(this.#file, 'utf8');
      // First, so that one that cannot be taken away opens nothing either.
      await rm(this.#file);
      const { model } = JSON.parse(text) as { model?: unknown };
      return typeof model === 'string' ? model : null;
    } catch {
      return null;
    }
  }

  /** What cannot be noted costs the next start's first chat a second, and nothing else. */
  async note(model: string): Promise<void> {
    try {
      await mkdir(this.#folder, { recursive: true });
      await writeFile(this.#file, `${JSON.stringify({ model })}\n`);
    } catch {
      // A full disk is told by who needs it.
    }
  }
}
