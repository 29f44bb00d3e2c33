/**
 * Owns an engine that runs at most as many chats as it has slots, and notes their owners in order; the rest is the echo engine.
 * It must never delay a chat that it was given: chats wait in the service.
 */
import { appendFileSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';
import echo from '../../plugins/engines/echo/index.js';
import type { EngineOptions, EnginePlugin, GenerateTask } from '../../src/plugin/contract.js';
import { type Fields, openWithSettings } from './chat-client.js';
import type { TestService } from './service.js';

const FILE = 'begun.txt';

const plugin: EnginePlugin = {
  kind: 'engine',
  name: 'turns',
  contract: 1,
  open: async (options) => noting(options, await echo.open(options)),
};

export default plugin;

type Engine = Awaited<ReturnType<EnginePlugin['open']>>;

function noting({ slots, stateDir }: EngineOptions, engine: Engine): Engine {
  mkdirSync(stateDir, { recursive: true });
  return {
    models: () => engine.models().map((model) => ({ ...model, slots })),
    prefill: (task, signal) => engine.prefill(task, signal),
    forget: (snapshot) => engine.forget(snapshot),
    close: () => engine.close(),
    generate(task: GenerateTask, control) {
      appendFileSync(join(stateDir, FILE), `${task.owner}\n`);
      return engine.generate(task, control);
    },
  };
}

/** Owners of the chats that the engine was given, in order. */
export function begun({ dataDir }: Pick<TestService, 'dataDir'>): string[] {
  try {
    return readFileSync(join(dataDir, 'engine', FILE), 'utf8')
      .trimEnd()
      .split('\n');
  } catch {
    return [];
  }
}

/** A service whose models run one chat at a time. */
export function openSingle(t: Test, settings: Fields = {}): Promise<TestService> {
  const engine = fileURLToPath(import.meta.url);
  const defaults = { engine, tokenizer: 'bytes', weights: null };
  return openWithSettings(t, { ...settings, defaults }, { PREFACE_SLOTS: '1' });
}
