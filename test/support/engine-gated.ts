/**
 * Owns an engine whose prefixes become ready, fail or get lost as a test tells it; the rest is the echo engine.
 * It must never reuse, or report as reused, what the contract of engines does not allow.
 *
 * Marks in the prompt: `/slow-NAME` is prefilled only after `letGo(dataDir, NAME)`, and says what becomes of it, `/refused` has no room on the disk,
 * `/lost` is never reused, of `/half` only the first half is.
 */
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import echo from '../../plugins/engines/echo/index.js';
import type {
  Engine,
  EngineEvent,
  EngineOptions,
  EnginePlugin,
  GenerateControl,
  GenerateTask,
  PrefillTask,
} from '../../src/plugin/contract.js';

const LOOK_MS = 10;

const plugin: EnginePlugin = {
  kind: 'engine',
  name: 'gated',
  contract: 1,
  open: async (options) => new GatedEngine(options, await echo.open(options)),
};

export default plugin;

/** Lets the prefills of `/slow-NAME` go on, now and from now on. */
export function letGo(dataDir: string, name: string): void {
  const folder = join(dataDir, 'engine');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, gateFile(name)), '');
}

/** Prefills of `/slow-NAME` wait again from now on. */
export function holdUp(dataDir: string, name: string): void {
  rmSync(join(dataDir, 'engine', gateFile(name)), { force: true });
}

/** Whether a prefill of `/slow-NAME` has come so far. */
export function prefillWas(state: 'begun' | 'stopped', dataDir: string, name: string): boolean {
  return existsSync(join(dataDir, 'engine', `${state}-${name}`));
}

function gateFile(name: string): string {
  return `open-${name}`;
}

class GatedEngine implements Engine {
  constructor(
    readonly options: EngineOptions,
    readonly echo: Engine,
  ) {}

  models() {
    return this.echo.models();
  }

  async prefill(task: PrefillTask, signal: AbortSignal) {
    const text = textOf(task.prompt);
    if (text.includes('/refused')) {
      throw Object.assign(new Error('the disk is full'), { code: 'no_space' });
    }
    const gate = /\/slow-(\w+)/.exec(text)?.[1];
    if (gate !== undefined) await this.#opened(gate, signal);
    return await this.echo.prefill(task, signal);
  }

  async *generate(task: GenerateTask, control: GenerateControl): AsyncGenerator<EngineEvent> {
    const text = textOf(task.prompt);
    for await (const event of this.echo.generate(task, control)) {
      if (event.type !== 'started') yield event;
      else yield { ...event, reusedTokens: reused(text, event.reusedTokens) };
    }
  }

  forget(snapshot: string) {
    return this.echo.forget(snapshot);
  }

  close() {
    return this.echo.close();
  }

  async #opened(gate: string, signal: AbortSignal): Promise<void> {
    const file = join(this.options.stateDir, gateFile(gate));
    const say = (state: string) =>
      writeFileSync(join(this.options.stateDir, `${state}-${gate}`), '');
    mkdirSync(this.options.stateDir, { recursive: true });
    say('begun');
    try {
      while (!existsSync(file)) await delay(LOOK_MS, null, { signal });
    } catch (cause) {
      say('stopped');
      throw cause;
    }
  }
}

function reused(text: string, tokens: number): number {
  if (text.includes('/lost')) return 0;
  return text.includes('/half') ? Math.floor(tokens / 2) : tokens;
}

/** Ids of the bytes tokenizer from 256 on are marks between turns. */
function textOf(prompt: Uint32Array): string {
  return Buffer.from(prompt.filter((id) => id < 256)).toString();
}
