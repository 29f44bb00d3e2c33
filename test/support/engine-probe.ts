/**
 * Owns an engine that fails, splits and counts as a test tells it, and notes what happens to its generations.
 * It must never end a generation in a way that the contract of engines does not allow.
 *
 * First words of the last message: `/refuse` fails before the start, `/full` has no room, `/break TEXT` fails in the
 * middle, `/bytes TEXT` says each byte alone, `/endless TEXT` goes on and on, `/stall TEXT` says it and no more, `/hang` says
 * nothing. The rest is echo.
 */
import { appendFileSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
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

export interface Note {
  readonly event: 'begin' | 'pieces' | 'end';
  readonly text: string;
  /** Pieces that the reader has taken so far. */
  readonly pieces: number;
  readonly aborted: boolean;
}

const NOTE_EVERY_PIECES = 50;
const FILE = 'probe.jsonl';

const plugin: EnginePlugin = {
  kind: 'engine',
  name: 'probe',
  contract: 1,
  open: async (options) => new ProbeEngine(options, await echo.open(options)),
};

export default plugin;

/** The notes of the engine so far. @param dataDir of the service. */
export function notes(dataDir: string): Note[] {
  try {
    const lines = readFileSync(join(dataDir, 'engine', FILE), 'utf8')
      .trimEnd()
      .split('\n');
    return lines.map((line) => JSON.parse(line) as Note);
  } catch {
    return [];
  }
}

class ProbeEngine implements Engine {
  readonly #file: string;

  constructor(
    options: EngineOptions,
    readonly echo: Engine,
  ) {
    mkdirSync(options.stateDir, { recursive: true });
    this.#file = join(options.stateDir, FILE);
  }

  models() {
    return this.echo.models();
  }

  prefill(task: PrefillTask, signal: AbortSignal) {
    return this.echo.prefill(task, signal);
  }

  forget(snapshot: string) {
    return this.echo.forget(snapshot);
  }

  close() {
    return this.echo.close();
  }

  async *generate(task: GenerateTask, control: GenerateControl): AsyncGenerator<EngineEvent> {
    const text = lastMessage(task.prompt);
    let pieces = 0;
    const note = (event: Note['event']) => {
      const { aborted } = control.signal;
      appendFileSync(this.#file, `${JSON.stringify({ event, text, pieces, aborted })}\n`);
    };
    note('begin');
    try {
      for await (const event of this.#events(task, control, text)) {
        yield event;
        if (event.type === 'piece') pieces += 1;
        if (event.type === 'piece' && pieces % NOTE_EVERY_PIECES === 0) note('pieces');
      }
    } finally {
      note('end');
    }
  }

  async *#events(
    task: GenerateTask,
    control: GenerateControl,
    text: string,
  ): AsyncGenerator<EngineEvent> {
    const [, verb = '', rest = ''] = /^(\/\w+) ?([\s\S]*)$/.exec(text) ?? [];
    const say = verbs[verb];
    if (say === undefined) yield* this.echo.generate(task, control);
    else yield* say(rest, task, control);
  }
}

type Say = (
  rest: string,
  task: GenerateTask,
  control: GenerateControl,
) => AsyncGenerator<EngineEvent>;

const started: EngineEvent = { type: 'started', reusedTokens: 0 };

const piece = (ids: readonly number[]): EngineEvent => ({
  type: 'piece',
  choice: 0,
  ids,
  logprobs: null,
});

const verbs: Readonly<Record<string, Say>> = {
  // biome-ignore lint/correctness/useYield: it breaks before it can say anything
  async *'/refuse'() {
    throw new Error('the probe engine was asked to refuse');
  },
  // biome-ignore lint/correctness/useYield: it breaks before it can say anything
  async *'/full'() {
    throw Object.assign(new Error('no room to queue'), { code: 'overloaded' });
  },
  async *'/break'(rest) {
    yield started;
    yield piece([...Buffer.from(rest)]);
    throw new Error('the probe engine was asked to break');
  },
  async *'/bytes'(rest) {
    yield started;
    for (const byte of Buffer.from(rest)) yield piece([byte]);
    yield { type: 'finished', choice: 0, reason: 'stop' };
  },
  async *'/endless'(rest, { maxTokens }, { signal }) {
    const ids = [...Buffer.from(rest)];
    yield started;
    for (let said = 0; said < maxTokens; said += ids.length) {
      if (signal.aborted) return;
      yield piece(ids.slice(0, maxTokens - said));
      // Like a real engine, it lets other generations run between its tokens.
      await new Promise((resolve) => setImmediate(resolve));
    }
    yield { type: 'finished', choice: 0, reason: 'length' };
  },
  async *'/stall'(rest, _task, { signal }) {
    yield started;
    yield piece([...Buffer.from(rest)]);
    await aborted(signal);
  },
  async *'/hang'(_rest, _task, { signal }) {
    yield started;
    await aborted(signal);
  },
};

async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve));
}

/** Text between the last two turn marks but one: `role\nTEXT`. Ids from 256 on are marks. */
function lastMessage(prompt: Uint32Array): string {
  const turns: number[][] = [[]];
  for (const id of prompt) {
    if (id > 255) turns.push([]);
    else turns.at(-1)?.push(id);
  }
  const text = Buffer.from(turns.at(-3) ?? []).toString();
  return text.slice(text.indexOf('\n') + 1);
}
