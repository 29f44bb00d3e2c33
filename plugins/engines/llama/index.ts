/**
 * Owns the engine for local GGUF weights: opens the models and turns tasks into streams of events.
 * It must never see text of a request nor the store; ids come in and ids go out.
 */
import { createHash } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { cpus } from 'node:os';
import { join } from 'node:path';
import type {
  Constraint,
  Engine,
  EngineModel,
  EngineModelSpec,
  EngineOptions,
  EnginePlugin,
  GenerateTask,
  RefusedModel,
} from 'preface/plugin';
import { exactnessOf } from './certificate.js';
import { openConstraints } from './constraint.js';
import { ContextPool } from './context-pool.js';
import { Generation } from './generation.js';
import { Runtime, type Weights } from './native.js';
import { PrefixCache } from './prefix-cache.js';
import { Scheduler } from './scheduler.js';
import { Snapshots } from './snapshots.js';
import { ThreadChoice } from './threads.js';

const plugin: EnginePlugin = { kind: 'engine', name: 'engine-llama', contract: 1, prepare, open };
export default plugin;

/** Made ahead for the next `open`: the library and its kernels are read from disk. */
let prepared: Runtime | null = null;

async function prepare(): Promise<void> {
  prepared ??= await Runtime.open();
}

async function open(options: EngineOptions): Promise<Engine> {
  const runtime = prepared ?? (await Runtime.open());
  prepared = null;
  return await openEngine(runtime, options);
}

async function openEngine(runtime: Runtime, options: EngineOptions): Promise<Engine> {
  const weights = await loadAll(runtime, options);
  const [first] = weights.values();
  if (!first) throw new Error('engine-llama: no model with weights is configured');
  const threads = await ThreadChoice.open(options, first.facts.description);
  const pool = new ContextPool(options, threads);
  const offer: Offer = { models: [], refused: [] };
  for (const spec of options.models) {
    const own = weights.get(spec.weights ?? '');
    if (own) await offerModel({ runtime, options, pool, threads }, spec, own, offer);
  }
  const folder = join(options.stateDir, 'snapshots');
  const snapshots = await Snapshots.open(folder, options.snapshotBytesMax);
  return newEngine({ pool, snapshots, threads, ...offer });
}

interface Offer {
  readonly models: EngineModel[];
  readonly refused: RefusedModel[];
}

interface Opening {
  readonly runtime: Runtime;
  readonly options: EngineOptions;
  readonly pool: ContextPool;
  readonly threads: ThreadChoice;
}

async function offerModel(
  { runtime, options, pool, threads }: Opening,
  spec: EngineModelSpec,
  own: Weights,
  { models, refused }: Offer,
): Promise<void> {
  const { id, window } = spec;
  const path = spec.weights ?? '';
  const { stateDir } = options;
  if (own.refusal !== null) {
    refused.push({ id, reason: own.refusal });
    return;
  }
  const build = { build: runtime.build, stateDir, threads: threads.best('prompt') };
  const exactness = options.exact ? await exactnessOf(own, build) : null;
  if (!pool.add(spec, path, own, exactness)) {
    refused.push({ id, reason: `its window of ${window} tokens does not fit into the memory` });
    return;
  }
  const slots = pool.plan(id)?.sequences ?? 1;
  const settings = { window, slots, exact: options.exact };
  const fingerprint = await modelFingerprint(runtime, settings, path, own);
  const exact = exactness === null ? 'off' : exactness.held ? 'proved' : 'not held';
  models.push({ id, window, fingerprint, slots, logprobs: true, vision: false, exact });
}

async function loadAll(runtime: Runtime, options: EngineOptions): Promise<Map<string, Weights>> {
  const weights = new Map<string, Weights>();
  for (const { id, weights: path } of options.models) {
    if (path === null) throw new Error(`engine-llama: model ${id} names no weights file`);
    if (!weights.has(path)) weights.set(path, await runtime.load(path));
  }
  return weights;
}

interface ContextSettings {
  readonly window: number;
  /** A state is only taken in by a context with as many sequences. */
  readonly slots: number;
  readonly exact: boolean;
}

/** Size and time stand for the file's content: it is checked when it is fetched, and hashing it takes seconds. */
async function modelFingerprint(
  runtime: Runtime,
  { window, slots, exact }: ContextSettings,
  path: string,
  weights: Weights,
): Promise<string> {
  const { size, mtimeMs } = await stat(path);
  const scaled = window > weights.facts.trainedWindow ? window : 'trained';
  const processor = cpus()[0]?.model ?? '';
  const { description } = weights.facts;
  const facts = [size, mtimeMs, description, scaled, slots, exact, runtime.build, processor];
  return createHash('sha256').update(JSON.stringify(facts)).digest('hex').slice(0, 32);
}

interface Parts {
  readonly pool: ContextPool;
  readonly snapshots: Snapshots;
  readonly threads: ThreadChoice;
  readonly models: readonly EngineModel[];
  readonly refused: readonly RefusedModel[];
}

function newEngine({ pool, snapshots, threads, models, refused }: Parts): Engine {
  const scheduler = new Scheduler(pool);
  const prefixes = new PrefixCache({ scheduler, pool, snapshots, models });
  let closing: Promise<void> | null = null;
  const checkOpen = () => {
    if (closing) throw new Error('the engine is closed');
  };
  return {
    models: () => models,
    refused: () => refused,
    async *generate(task, control) {
      checkOpen();
      const window = checkedWindow(task, pool);
      const wake = () => scheduler.wake();
      const generation = new Generation(task, control, prefixes.prompt(task), window, wake);
      try {
        if (task.constraint) await constrain(generation, task.constraint, pool);
        checkOpen();
        scheduler.submit(task.model, generation);
      } catch (cause) {
        generation.end();
        throw cause;
      }
      try {
        for (;;) {
          const event = await generation.next();
          if (!event) return;
          yield event;
        }
      } finally {
        generation.abandon();
      }
    },
    async prefill(task, signal) {
      checkOpen();
      checkedWindow(task, pool);
      return await prefixes.prefill(task, signal);
    },
    holds: (task) => prefixes.holds(task),
    forget: (snapshot) => prefixes.forget(snapshot),
    warm: () => pool.reopen(),
    close() {
      closing ??= scheduler
        .close()
        .then(() => threads.close())
        .then(() => snapshots.close());
      return closing;
    },
  };
}

/** Beside the decode loop: a schema takes its time before its task has a place in the queue. */
async function constrain(
  { task, choices }: Generation,
  constraint: Constraint,
  pool: ContextPool,
): Promise<void> {
  const weights = pool.weights(task.model);
  if (!weights) return;
  const of = { weights, owner: task.owner, choices: choices.length };
  const states = await openConstraints(constraint, of);
  for (const [i, choice] of choices.entries()) choice.constraint = states[i] ?? null;
}

function checkedWindow(
  { model, prompt }: Pick<GenerateTask, 'model' | 'prompt'>,
  pool: ContextPool,
): number {
  const plan = pool.plan(model);
  const weights = pool.weights(model);
  if (!plan || !weights) throw new Error(`engine-llama does not serve the model ${model}`);
  if (prompt.length === 0) throw new Error('the prompt is empty');
  if (prompt.length >= plan.window) {
    throw new Error(
      `the prompt has ${prompt.length} tokens, the window of ${model} ${plan.window}`,
    );
  }
  const foreign = prompt.find((id) => id >= weights.facts.vocabularySize);
  if (foreign !== undefined) throw new Error(`the vocabulary of ${model} has no id ${foreign}`);
  return plan.window;
}
