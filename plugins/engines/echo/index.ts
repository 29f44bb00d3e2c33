/**
 * Owns a deterministic engine without weights or binary: it answers with the last turn of the prompt.
 * It must keep every rule of the contract, so that what is tested on it holds on a real engine.
 *
 * Three first words let a client see the rarer paths: `/repeat TEXT` goes on until `maxTokens`,
 * `/fail TEXT` breaks after TEXT, `/wait` says nothing until it is cancelled.
 */
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type {
  Engine,
  EngineEvent,
  EngineModel,
  EngineOptions,
  EnginePlugin,
  GenerateControl,
  GenerateTask,
  ModelMemory,
  PrefillTask,
  SnapshotInfo,
  VectorTask,
} from 'preface/plugin';
import { constrained } from './constrained.js';
import { echoVector, vectorFacts } from './vectors.js';

/** Generations do not compete here, so this many may run at the same time whatever the settings say. */
const SLOTS = 512;
/** Ids of the bytes tokenizer below this are bytes; the others are special. */
const BYTE_IDS = 256;
/** A patch of an image, which is looked at and not repeated. */
const IMAGE_ID = 258;
const SPACE = 0x20;
const NEWLINE = 0x0a;

const LOADED: ModelMemory = { state: 'loaded', sinceMs: Date.now(), bytes: 0 };

const plugin: EnginePlugin = {
  kind: 'engine',
  name: 'echo',
  contract: 1,
  nativeFree: true,
  open: async (options) => new EchoEngine(options),
};

export default plugin;

class EchoEngine implements Engine {
  readonly #models: readonly EngineModel[];
  readonly #folder: string;
  /** Nothing is loaded here: it shows how a model that was unloaded comes back. */
  readonly #memory = new Map<string, ModelMemory>();
  #changed = () => {};

  constructor(options: EngineOptions) {
    this.#folder = join(options.stateDir, 'echo-snapshots');
    this.#models = options.models.map(({ id, window, kind = 'chat', vision = false }) => ({
      id,
      window,
      fingerprint: `echo-1-${window}`,
      slots: SLOTS,
      logprobs: true,
      vision,
      ...(kind === 'chat' ? {} : { kind, vectors: vectorFacts }),
    }));
  }

  models(): readonly EngineModel[] {
    return this.#models.map((model) => ({
      ...model,
      memory: this.#memory.get(model.id) ?? LOADED,
    }));
  }

  watch(changed: () => void): void {
    this.#changed = changed;
  }

  async load(model: string): Promise<void> {
    this.#note(model, 'loaded');
  }

  async unload(model: string): Promise<void> {
    this.#note(model, 'unloaded');
  }

  #note(model: string, state: ModelMemory['state']): void {
    if ((this.#memory.get(model) ?? LOADED).state === state) return;
    this.#memory.set(model, { state, sinceMs: Date.now(), bytes: 0 });
    this.#changed();
  }

  async *generate(task: GenerateTask, control: GenerateControl): AsyncGenerator<EngineEvent> {
    await this.load(task.model);
    yield { type: 'started', reusedTokens: await this.#reuse(task) };
    yield* scored(task);
    const { verb, answer } = readTurn(lastTurn(task.prompt));
    if (verb === 'wait') return await aborted(control.signal);
    const said = verb === null ? withinConstraint(task, answer) : answer;
    const isEndless = verb === 'repeat' || task.sampling.ignoresEnd === true;
    const choices = Array.from({ length: task.choices }, (_, choice) =>
      say(task, said, choice, isEndless),
    );
    for (const event of interleave(choices, control)) {
      // The failure comes before any choice has finished.
      if (verb !== 'fail' || event.type === 'piece') yield event;
    }
    if (verb === 'fail') throw new Error('the echo engine was asked to fail');
  }

  async *vectors(task: VectorTask, control: GenerateControl): AsyncGenerator<EngineEvent> {
    const kind = this.#models.find(({ id }) => id === task.model)?.kind ?? 'chat';
    for (const ids of task.inputs) {
      if (control.aborted) return;
      yield { type: 'vectors', vectors: [echoVector(ids, kind)] };
    }
  }

  /** Nothing is evaluated here; a file with the ids replaces the state, so that it survives the process. */
  async prefill(
    { prompt, snapshot, base, pin = false }: PrefillTask,
    signal?: AbortSignal,
  ): Promise<SnapshotInfo> {
    signal?.throwIfAborted();
    const kept = await this.#kept(snapshot);
    const from = base !== undefined && (await this.#kept(base.name)) !== null ? base.tokens : 0;
    const evaluatedTokens = kept === null ? prompt.length - from : 0;
    if (kept === null) {
      await mkdir(this.#folder, { recursive: true });
      await writeFile(join(this.#folder, snapshot), prompt);
    }
    const info = { tokens: prompt.length, bytes: prompt.byteLength, evaluatedTokens };
    // The ids are all there is to keep.
    return pin ? { ...info, pinned: true } : info;
  }

  async holds({ snapshot }: PrefillTask): Promise<boolean> {
    return (await this.#kept(snapshot)) !== null;
  }

  async forget(snapshot: string): Promise<void> {
    await rm(join(this.#folder, snapshot), { force: true });
  }

  async close(): Promise<void> {}

  /** At least two tokens are left to evaluate, as on a real engine. */
  async #reuse({ prompt, snapshot, model, owner }: GenerateTask): Promise<number> {
    if (snapshot === null) return 0;
    const { name, tokens } = snapshot;
    const prefix = prompt.subarray(0, tokens);
    const { evaluatedTokens } = await this.prefill({
      prompt: prefix,
      snapshot: name,
      model,
      owner,
    });
    return evaluatedTokens === 0 ? Math.min(tokens, prompt.length - 2) : 0;
  }

  async #kept(snapshot: string): Promise<Buffer | null> {
    return await readFile(join(this.#folder, snapshot)).catch(() => null);
  }
}

function withinConstraint(
  { constraint }: GenerateTask,
  answer: readonly number[],
): readonly number[] {
  if (constraint === null) return answer;
  return [...Buffer.from(constrained(Buffer.from(answer).toString(), constraint))];
}

/** One piece of each choice in turn, as a batch over sequences gives them. */
function* interleave(
  choices: readonly Generator<EngineEvent>[],
  control: GenerateControl,
): Generator<EngineEvent> {
  const open = new Set(choices.keys());
  while (open.size > 0) {
    for (const choice of open) {
      if (control.aborted) return;
      const next = control.cancelled(choice) ? null : choices[choice]?.next();
      if (!next || next.done) open.delete(choice);
      else yield next.value;
    }
  }
}

/** A piece is a word with the space after it. */
function* say(
  task: GenerateTask,
  answer: readonly number[],
  choice: number,
  forEver: boolean,
): Generator<EngineEvent> {
  const { maxTokens, constraint, sampling } = task;
  // JSON ends where it closes.
  const goesOn = forEver && constraint === null;
  const minTokens = constraint === null ? (sampling.minTokens ?? 0) : 0;
  let said = 0;
  do {
    for (let from = 0; from < answer.length && said < maxTokens; ) {
      const end = Math.min(wordEnd(answer, from), from + maxTokens - said);
      const ids = answer.slice(from, end);
      yield { type: 'piece', choice, ids, logprobs: certain(ids, task.logprobs) };
      said += ids.length;
      from = end;
    }
  } while ((goesOn || said < minTokens) && answer.length > 0 && said < maxTokens);
  yield { type: 'finished', choice, reason: said >= maxTokens ? 'length' : 'stop' };
}

function* scored({ prompt, promptLogprobs }: GenerateTask): Generator<EngineEvent> {
  if (promptLogprobs === undefined) return;
  const [first, ...others] = certain([...prompt], promptLogprobs) ?? [];
  if (first) yield { type: 'scored', logprobs: [{ ...first, top: [] }, ...others] };
}

function certain(ids: readonly number[], top: number | null) {
  if (top === null) return null;
  return ids.map((id) => ({ id, logprob: 0, top: top > 0 ? [{ id, logprob: 0 }] : [] }));
}

function wordEnd(answer: readonly number[], from: number): number {
  const space = answer.indexOf(SPACE, from);
  return space < 0 ? answer.length : space + 1;
}

/** Bytes of the last turn before the one to generate: `role\nCONTENT` between two special ids. */
function lastTurn(prompt: Uint32Array): number[] {
  const turns: number[][] = [[]];
  for (let at = prompt.length - 1; at >= 0 && turns.length <= TURNS_FROM_END; at--) {
    const id = prompt[at] as number;
    if (id === IMAGE_ID) continue;
    if (id >= BYTE_IDS) turns.push([]);
    else turns.at(-1)?.push(id);
  }
  const [only = []] = turns;
  // A raw prompt has no turns.
  if (turns.length === 1) return only.reverse();
  const turn = (turns[TURNS_FROM_END - 1] ?? []).reverse();
  return turn.slice(turn.indexOf(NEWLINE) + 1);
}

/** From the end: the opened answer, the newline between two turns, the last turn. */
const TURNS_FROM_END = 3;

type Verb = 'repeat' | 'fail' | 'wait' | null;

function readTurn(turn: readonly number[]): { verb: Verb; answer: readonly number[] } {
  const first = Buffer.from(turn.slice(0, wordEnd(turn, 0))).toString('latin1');
  const verb = VERBS[first.trimEnd()] ?? null;
  return { verb, answer: verb === null ? turn : turn.slice(first.length) };
}

const VERBS: Readonly<Record<string, Verb>> = {
  '/repeat': 'repeat',
  '/fail': 'fail',
  '/wait': 'wait',
};

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve()));
}
