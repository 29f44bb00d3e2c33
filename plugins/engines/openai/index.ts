/**
 * Owns the engine that asks others: any server or cluster that speaks the chat completions of OpenAI.
 * It must never run anything here, nor say that something was reused which an upstream did not report.
 *
 * An upstream has a template, tool calls and JSON of its own, so it gets the conversation and not the ids; the ids are
 * what this side counts by. A prefix is made, and looked after, by a one-token call with its messages.
 */
import { createHash } from 'node:crypto';
import {
  type Clock,
  type Conversation,
  type ConversationRequest,
  type Engine,
  type EngineEvent,
  type EngineModel,
  type EngineModelSpec,
  type EngineOptions,
  type EnginePlugin,
  type GenerateControl,
  type GenerateTask,
  limits,
  type PrefillTask,
  type SnapshotInfo,
  systemClock,
} from 'preface/plugin';
import { AnswerReader } from './answer.js';
import { firstToAnswer } from './attempts.js';
import type { Answer } from './connection.js';
import type { Dialect } from './dialect.js';
import { broken, failureOf, UpstreamError } from './failure.js';
import { type Replica, Replicas } from './replicas.js';
import { chatBody, prefixBody } from './request.js';
import { serverEvents } from './server-events.js';
import { isCached, type Usage, usageOf } from './usage.js';

const plugin: EnginePlugin = {
  kind: 'engine',
  name: 'openai',
  contract: 1,
  open: async (options) => new OpenAiEngine(options, systemClock),
};

export default plugin;

/** An answer that has begun. */
interface Begun {
  readonly replica: Replica;
  readonly answer: Answer;
  readonly events: AsyncGenerator<string>;
  readonly first: IteratorResult<string, void>;
  /** What a look at the prefix reported, where the task has one. */
  readonly prefix: Usage | null;
}

class OpenAiEngine implements Engine {
  readonly #models: readonly EngineModel[];
  readonly #replicas: ReadonlyMap<string, Replicas>;

  constructor(options: EngineOptions, clock: Clock) {
    this.#models = options.models.map(modelOf);
    const log = (line: string) => void process.stderr.write(`${line}\n`);
    this.#replicas = new Map(
      options.models.map((spec) => [spec.id, new Replicas(remoteOf(spec), clock, log)]),
    );
  }

  models(): readonly EngineModel[] {
    return this.#models;
  }

  async *generate(task: GenerateTask, control: GenerateControl): AsyncGenerator<EngineEvent> {
    try {
      yield* this.#generate(task, control);
    } catch (cause) {
      // Nobody wants the rest, so nobody wants to know how it broke.
      if (!control.signal.aborted) throw cause;
    }
  }

  async *#generate(task: GenerateTask, control: GenerateControl): AsyncGenerator<EngineEvent> {
    const conversation = asked(task.conversation);
    const begun = await this.#begin(task, conversation, control.signal);
    const { replica, prefix } = begun;
    let isWhole = false;
    try {
      // Behind the prefix there was a turn of ours, which may be cached as well.
      const reusedTokens = Math.min(prefix?.cachedTokens ?? 0, task.snapshot?.tokens ?? 0);
      yield { type: 'started', reusedTokens };
      const echo = echoOf(conversation, replica.dialect);
      const reader = new AnswerReader(task.choices, replica.upstream.apiKey, echo);
      for await (const data of resumed(begun)) {
        isWhole = data === '[DONE]';
        if (isWhole) break;
        for (const event of reader.read(data)) {
          if (control.signal.aborted) return;
          if (!('choice' in event && control.cancelled(event.choice))) yield event;
        }
        if (allCancelled(task.choices, control)) return;
      }
      const spent = prefix === null ? 0 : prefix.promptTokens - (prefix.cachedTokens ?? 0);
      yield* reader.end(spent);
    } finally {
      replica.running -= 1;
      if (isWhole) void reuse(begun);
      else begun.answer.drop();
    }
  }

  /** On the first replica that answers; where there is a prefix to reuse, that is looked after before. */
  #begin(
    task: GenerateTask,
    conversation: ConversationRequest,
    signal: AbortSignal,
  ): Promise<Begun> {
    const { owner, snapshot } = task;
    const order = this.#of(task.model).order(snapshot?.name ?? null);
    return firstToAnswer(order, signal, async (replica) => {
      replica.running += 1;
      try {
        await replica.looked;
        const prefix =
          snapshot === null ? null : await evaluate(replica, owner, prefixOf(conversation), signal);
        const answer = await post(replica, chatBody(task, conversation, replica), signal);
        if (!answer.isStream) throw noStream(answer);
        const events = serverEvents(answer.bytes());
        return { replica, answer, events, first: await events.next(), prefix };
      } catch (cause) {
        replica.running -= 1;
        throw cause;
      }
    });
  }

  /** Ready when the upstream itself reports that it holds the prefix: at once, or when asked again. */
  async prefill(task: PrefillTask, signal: AbortSignal): Promise<SnapshotInfo> {
    const conversation = asked(task.conversation);
    const order = this.#of(task.model).order(task.snapshot);
    const tokens = task.prompt.length;
    return await firstToAnswer(order, signal, async (replica) => {
      replica.running += 1;
      try {
        await replica.looked;
        const first = await evaluate(replica, task.owner, conversation, signal);
        if (isCached(first)) return { tokens, bytes: 0, evaluatedTokens: 0 };
        const second = await evaluate(replica, task.owner, conversation, signal);
        if (!isCached(second)) throw notKept(second);
        const evaluatedTokens = first.promptTokens - (first.cachedTokens ?? 0);
        return { tokens, bytes: 0, evaluatedTokens };
      } finally {
        replica.running -= 1;
      }
    });
  }

  /** Upstreams forget by themselves, what was not used for the longest time first. */
  async forget(): Promise<void> {}

  async close(): Promise<void> {
    await Promise.all([...this.#replicas.values()].map((replicas) => replicas.close()));
  }

  #of(model: string): Replicas {
    const replicas = this.#replicas.get(model);
    if (replicas === undefined) throw new Error(`the engine has no model ${model}`);
    return replicas;
  }
}

function modelOf(spec: EngineModelSpec): EngineModel {
  const servers = remoteOf(spec).upstreams.map(({ url, model }) => `${model} ${url}`);
  const hash = createHash('sha256').update(servers.join('\n')).digest('hex').slice(0, 16);
  return {
    id: spec.id,
    window: spec.window,
    fingerprint: `openai-1-${hash}`,
    slots: limits.upstreamConnectionsMax,
    logprobs: true,
    vision: false,
    conversation: true,
  };
}

function remoteOf({ id, remote }: EngineModelSpec) {
  if (remote === undefined) throw new Error(`the model ${id} has no upstreams`);
  return remote;
}

function asked<Asked extends Conversation>(conversation: Asked | undefined): Asked {
  if (conversation === undefined) throw new Error('the task has no conversation');
  return conversation;
}

function prefixOf({ messages, tools, prefixMessages }: ConversationRequest): Conversation {
  return { messages: messages.slice(0, prefixMessages), tools };
}

/** @throws UpstreamError for any answer that is no success. */
async function post(replica: Replica, body: string, signal: AbortSignal): Promise<Answer> {
  const { connection, upstream } = replica;
  const answer = await connection.ask({ path: '/chat/completions', body, signal });
  if (answer.status === 200) return answer;
  const { status, retryAfterMs } = answer;
  throw failureOf({ status, retryAfterMs, text: await answer.text() }, upstream.apiKey);
}

async function evaluate(
  replica: Replica,
  owner: string,
  prefix: Conversation,
  signal: AbortSignal,
): Promise<Usage> {
  const answer = await post(replica, prefixBody(owner, prefix, replica), signal);
  const text = await answer.text();
  const usage = usageOf(usageIn(text));
  if (usage === null) throw broken('a one-token answer has no usage');
  return usage;
}

function usageIn(text: string): unknown {
  try {
    return (JSON.parse(text) as { usage?: unknown } | null)?.usage;
  } catch {
    return null;
  }
}

/** Left in the middle, the events stay where they are. */
async function* resumed({ events, first }: Begun): AsyncGenerator<string> {
  for (let next = first; !next.done; next = await events.next()) yield next.value;
}

/** The connection serves others once the last bytes are taken; one whose end does not come is given up. */
async function reuse({ events, answer }: Begun): Promise<void> {
  const cancel = systemClock.after(limits.upstreamEndMsMax, () => answer.drop());
  try {
    while (!(await events.next()).done);
  } catch {
    // The answer is whole all the same.
  } finally {
    cancel();
  }
}

/** What the upstream says again before it goes on. */
function echoOf({ messages, partial }: ConversationRequest, { repeats }: Dialect): string {
  return partial && repeats ? (messages.at(-1)?.content ?? '') : '';
}

function allCancelled(choices: number, control: GenerateControl): boolean {
  for (let choice = 0; choice < choices; choice += 1) {
    if (!control.cancelled(choice)) return false;
  }
  return true;
}

function noStream(answer: Answer): UpstreamError {
  answer.drop();
  return new UpstreamError('the upstream does not stream its answer', null, 'elsewhere');
}

function notKept({ promptTokens, cachedTokens }: Usage): UpstreamError {
  const reported =
    cachedTokens === null
      ? 'it reports no prompt_tokens_details.cached_tokens (vLLM does with --enable-prompt-tokens-details)'
      : `of ${promptTokens} tokens it reports ${cachedTokens} as cached`;
  return new UpstreamError(
    `the upstream does not keep the prefix: ${reported}`,
    'unavailable',
    'never',
  );
}
