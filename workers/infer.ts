/**
 * Owns the inference thread: opens one engine and serves the streams of its host, until the host is gone.
 * It must never see the store, an actor or HTTP, and never keep a stream after its end.
 */
import { Socket } from 'node:net';
import { type ErrorValue, toErrorValue } from '../src/errors.js';
import type { Engine, EngineEvent, WarmReport } from '../src/plugin/contract.js';
import { loadPlugin } from '../src/plugin/load.js';
import type { EngineRef, FromEngine, InferTask, ToEngine } from '../src/pool/messages.js';
import { TierCaller } from '../src/pool/tier-link.js';
import {
  joinEvents,
  runStream,
  type StreamControl,
  StreamControls,
} from '../src/pool/token-stream.js';
import { pipeTransport, portTransport, type Transport } from '../src/pool/transport.js';

type Asker = Transport<FromEngine, ToEngine>;

type ServeTask = Extract<InferTask, { type: 'serve' }>;

/** Resolves when the host is gone, or after it has reported that the engine could not be opened. */
export default async function infer(task: InferTask): Promise<void> {
  if (task.type === 'prepare') return await prepare(task.engine);
  const transport = open(task.asker);
  try {
    const { module, options } = task.engine;
    const plugin = await loadPlugin(module, 'engine');
    if (plugin.nativeFree === true && task.place === 'either') {
      transport.send({ type: 'movable' });
      await new Promise<void>((resolve) => transport.finish(resolve));
      return;
    }
    if (plugin.nativeFree !== true && task.place === 'thread')
      throw new Error(`plugin ${module} does not say that it is free of native code`);
    const engine = await plugin.open(options);
    await serve(engine, transport, task.warmFirst, options.sharesSnapshots === true);
  } catch (cause) {
    transport.send({ type: 'failed', error: toErrorValue(cause) });
    await new Promise<void>((resolve) => transport.finish(resolve));
  }
}

async function prepare({ module }: EngineRef): Promise<void> {
  try {
    const plugin = await loadPlugin(module, 'engine');
    await plugin.prepare?.();
  } catch {
    // No stream can receive the error yet: the next attempt to open the engine fails again and reports it.
  }
}

function open(asker: ServeTask['asker']): Asker {
  if (typeof asker !== 'number') return portTransport(asker, joinEvents);
  return pipeTransport(new Socket({ fd: asker, readable: true, writable: true }), {
    join: joinEvents,
  });
}

async function serve(
  engine: Engine,
  transport: Asker,
  warmFirst: boolean,
  sharesSnapshots: boolean,
): Promise<void> {
  const warm = warmFirst ? await engine.warm?.() : null;
  const send = (message: FromEngine) => transport.send(message);
  const tier = new TierCaller((ask) => send({ type: 'tier', ask }));
  const controls = new StreamControls((stream, control) =>
    runStream(stream, control, eventsOf(engine, control), send, engineError),
  );
  transport.receive((messages) => {
    for (const message of messages) {
      if (message.type === 'ping') {
        send({ type: 'pong', reachable: engine.reachable?.() ?? true });
      } else if (message.type === 'tier') tier.receive(message.answer);
      else controls.receive(message);
    }
  });
  if (sharesSnapshots) engine.tier?.(tier);
  const left = new Promise<void>((resolve) => transport.onClose(resolve));
  engine.watch?.(() => send({ type: 'models', models: engine.models() }));
  send({ type: 'ready', models: engine.models(), refused: engine.refused?.() ?? [] });
  const tell = (report: WarmReport | null | undefined) => {
    if (report) send({ type: 'warm', report });
  };
  tell(warm);
  // A failure here happens again with the first task, which reports it.
  if (!warmFirst) engine.warm?.().then(tell, () => {});
  await left;
  await engine.close();
}

function eventsOf(engine: Engine, control: StreamControl): AsyncIterable<EngineEvent> {
  const { work } = control;
  if (work.type === 'generate') return engine.generate(work.task, control);
  if (work.type !== 'vectors') return keep(engine, control);
  if (engine.vectors === undefined) throw new Error('the engine makes no vectors');
  return engine.vectors(work.task, control);
}

/** What is done for snapshots and models, beside their tasks. */
async function* keep(engine: Engine, { work, signal }: StreamControl): AsyncGenerator<EngineEvent> {
  if (work.type === 'load') await engine.load?.(work.model);
  if (work.type === 'unload') await engine.unload?.(work.model);
  if (work.type === 'forget') await engine.forget(work.snapshot);
  if (work.type === 'holds') {
    yield { type: 'held', held: (await engine.holds?.(work.task)) ?? true };
  }
  if (work.type !== 'prefill') return;
  yield { type: 'prefilled', snapshot: await engine.prefill(work.task, signal) };
}

interface EngineError extends Error {
  readonly code?: string;
  readonly retryAfterMs?: number;
  /** The field of the request that is at fault. */
  readonly param?: string | null;
}

/** Engines are plugins without access to the error table: they set a `code`. */
function engineError(cause: unknown): ErrorValue {
  const { code, message, retryAfterMs, param } =
    cause instanceof Error ? (cause as EngineError) : {};
  if (code === 'overloaded') {
    return { row: 'overloaded', values: {}, extra: { retryAfterMs: retryAfterMs ?? 1000 } };
  }
  if (code === 'unavailable') {
    const extra = retryAfterMs === undefined ? {} : { retryAfterMs };
    return { row: 'unavailable', values: { error: message ?? '' }, extra };
  }
  if (code === 'busy') return { row: 'modelAtWork', values: { error: message ?? '' }, extra: {} };
  if (code === 'no_space') {
    return { row: 'unavailable', values: { error: message ?? '' }, extra: {} };
  }
  if (code === 'unsupported_schema' || code === 'refused') {
    const extra = typeof param === 'string' ? { param } : {};
    return { row: 'invalidRequest', values: { error_details: message ?? '' }, extra };
  }
  return toErrorValue(cause);
}
