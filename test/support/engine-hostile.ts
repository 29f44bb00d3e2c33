/**
 * Owns an engine that ends or blocks its process as a prompt says; the rest is the echo engine.
 * It must never be opened outside a test.
 */
import echo from '../../plugins/engines/echo/index.js';
import type {
  Engine,
  EngineEvent,
  EnginePlugin,
  GenerateControl,
  GenerateTask,
} from '../../src/plugin/contract.js';
import { endThread } from './end-thread.js';

const plugin: EnginePlugin = {
  kind: 'engine',
  name: 'hostile',
  contract: 1,
  async open(options) {
    const inner = await echo.open(options);
    const engine: Engine = {
      models: () => inner.models(),
      generate: (task, control) => generate(inner, task, control),
      prefill: (task, signal) => inner.prefill(task, signal),
      forget: (snapshot) => inner.forget(snapshot),
      close: () => inner.close(),
    };
    return engine;
  },
};

export default plugin;

async function* generate(
  inner: Engine,
  task: GenerateTask,
  control: GenerateControl,
): AsyncGenerator<EngineEvent> {
  const text = Buffer.from(task.prompt.filter((id) => id < 256)).toString();
  for await (const event of inner.generate(task, control)) {
    yield event;
    // After `started`: its client has a status by then only where it streams.
    endThread(/\/infer-(\w+)/.exec(text)?.[1]);
  }
}
