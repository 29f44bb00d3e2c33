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
  PrefillTask,
  SnapshotInfo,
} from 'preface/plugin';

/** Generations do not compete here, so this many may run at the same time whatever the settings say. */
const SLOTS = 512;
/** Ids of the bytes tokenizer below this are bytes; the others are special. */
const BYTE_IDS = 256;
const SPACE = 0x20;
const NEWLINE = 0x0a;

const plugin: EnginePlugin = {
  kind: 'engine',
  name: 'echo',
  contract: 1,
  open: async (options) => new EchoEngine(options),
};

export default plugin;

class EchoEngine implements Engine {
  readonly #models: readonly EngineModel[];
  readonly #folder: string;

  constructor(options: EngineOptions) {
    this.#folder = join(options.stateDir, 'echo-snapshots');
    this.#models = options.models.map(({ id, window }) => ({
      id,
      window,
      fingerprint: `echo-1-${window}`,
      slots: SLOTS,
      logprobs: true,
      vision: false,
    }));
  }

  models(): readonly EngineModel[] {
    return this.#models;
  }

  async *generate(task: GenerateTask, control: GenerateControl): AsyncGenerator<EngineEvent> {
    yield { type: 'started', reusedTokens: await this.#reuse(task) };
    const { verb, answer } = readTurn(lastTurn(task.prompt));
    if (verb === 'wait') return await aborted(control.signal);
    const choices = Array.from({ length: task.choices }, (_, choice) =>
      say(task, answer, choice, verb === 'repeat'),
    );
    for (const event of interleave(choices, control)) {
      // The failure comes before any choice has finished.
      if (verb !== 'fail' || event.type === 'piece') yield event;
    }
    if (verb === 'fail') throw new Error('the echo engine was asked to fail');
  }

  /** Nothing is evaluated here; a file with the ids replaces the state, so that it survives the process. */
  async prefill({ prompt, snapshot }: PrefillTask, signal?: AbortSignal): Promise<SnapshotInfo> {
    signal?.throwIfAborted();
    const kept = await this.#kept(snapshot);
    const evaluatedTokens = kept === null ? prompt.length : 0;
    if (kept === null) {
      await mkdir(this.#folder, { recursive: true });
      await writeFile(join(this.#folder, snapshot), prompt);
    }
    return { tokens: prompt.length, bytes: prompt.byteLength, evaluatedTokens };
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
  const { maxTokens } = task;
  let said = 0;
  do {
    for (let from = 0; from < answer.length && said < maxTokens; ) {
      const end = Math.min(wordEnd(answer, from), from + maxTokens - said);
      const ids = answer.slice(from, end);
      yield { type: 'piece', choice, ids, logprobs: certain(ids, task.logprobs) };
      said += ids.length;
      from = end;
    }
  } while (forEver && answer.length > 0 && said < maxTokens);
  yield { type: 'finished', choice, reason: said >= maxTokens ? 'length' : 'stop' };
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
    if (id >= BYTE_IDS) turns.push([]);
    else turns.at(-1)?.push(id);
  }
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
