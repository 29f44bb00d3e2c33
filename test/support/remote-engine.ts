/**
 * Owns an engine that asks upstreams, opened for a test with short waits.
 * It must never use more of the engine than its contract.
 */
import type { Test } from 'tap';
import plugin from '../../plugins/engines/openai/index.js';
import type {
  ConversationRequest,
  Engine,
  EngineEvent,
  GenerateControl,
  GenerateTask,
  PrefillTask,
  RemoteSpec,
} from '../../src/plugin/contract.js';

export const modelId = 'm';

export async function openRemote(t: Test, over: Partial<RemoteSpec>): Promise<Engine> {
  const engine = await plugin.open({
    models: [{ id: modelId, weights: null, window: 8_192, remote: remote(over) }],
    exact: true,
    threads: null,
    slots: 1,
    memoryBytesMax: 1,
    snapshotBytesMax: 1,
    stateDir: '',
  });
  t.teardown(() => engine.close());
  return engine;
}

export function remote(over: Partial<RemoteSpec>): RemoteSpec {
  const waits = { connectMs: 5_000, firstByteMs: 30_000, silenceMs: 30_000, healthMs: 30_000 };
  return { upstreams: [], ...waits, ...over };
}

export function upstream(url: string, apiKey: string | null = 'key-of-upstream', model = 'm') {
  return { url, apiKey, model };
}

export function request(over: Partial<ConversationRequest> = {}): ConversationRequest {
  return {
    messages: [says('user', 'hello')],
    tools: [],
    partial: false,
    prefixMessages: 0,
    toolChoice: { type: 'none' },
    parallelToolCalls: true,
    responseFormat: { type: 'text' },
    stop: [],
    ...over,
  };
}

export function says(role: 'system' | 'user' | 'assistant' | 'tool', content: string) {
  return { role, content, name: null, toolCalls: [], toolCallId: null };
}

export function task(over: Partial<GenerateTask> = {}): GenerateTask {
  return {
    model: modelId,
    owner: 'alice',
    prompt: new Uint32Array(30),
    snapshot: null,
    maxTokens: 100,
    choices: 1,
    endIds: [],
    sampling: { temperature: 0, topP: 1, presencePenalty: 0, frequencyPenalty: 0, seed: null },
    constraint: null,
    logprobs: null,
    conversation: request(),
    ...over,
  };
}

export function prefillTask(over: Partial<PrefillTask> = {}): PrefillTask {
  const conversation = { messages: [says('system', 'a long prefix')], tools: [] };
  const prompt = new Uint32Array(20);
  return { model: modelId, owner: 'alice', prompt, snapshot: 'p1', conversation, ...over };
}

export const never = control(new AbortController());

export function control({ signal }: AbortController): GenerateControl {
  return {
    signal,
    get aborted() {
      return signal.aborted;
    },
    cancelled: () => false,
  };
}

export async function run(engine: Engine, asked: GenerateTask): Promise<EngineEvent[]> {
  const events: EngineEvent[] = [];
  for await (const event of engine.generate(asked, never)) events.push(event);
  return events;
}

export function textOf(events: readonly EngineEvent[]): string {
  return events.map((event) => (event.type === 'text' ? event.text : '')).join('');
}

/** The error of a generation; null without one. */
export async function failure(engine: Engine, asked: GenerateTask = task()) {
  try {
    await run(engine, asked);
    return null;
  } catch (cause) {
    return cause as Error & { code?: string; retryAfterMs?: number };
  }
}
