/**
 * Owns the requests of the cookbook's recipes, and what the engine says that it evaluated for them.
 * It must never send a text twice to be measured: a later round would find the first one's prefix in memory.
 */
import { until } from '../../test/support/until.js';
import { MODEL } from './chat.js';
import { prose } from './prose.js';
import type { Sample } from './question.js';
import { KEY } from './servers.js';

const FAMILY = 'svc-v1';
const ANSWER_TOKENS = 4;
const READY_MS_MAX = 120_000;
const PEOPLE = 4;

/** The account of the bench has a key for each person who asks. */
const keys = [KEY, ...Array.from({ length: PEOPLE }, (_, at) => `${KEY}-${at}`)];
export const cookbookKeys = keys.map((key) => `bench:${key}`).join();

export interface RecipeSize {
  /** Of the prefix. */
  readonly words: number;
  readonly tools: number;
  readonly questions: number;
}

type Case = 'document' | 'few-shot' | 'agent' | 'handbook';

interface Used {
  readonly promptTokens: number;
  readonly cachedTokens: number;
}

interface Prompt {
  readonly messages: readonly object[];
  readonly tools?: readonly object[];
}

export class Recipes {
  #texts = 0;
  #salts = 0;

  constructor(
    readonly port: number,
    readonly size: RecipeSize,
  ) {}

  /** What the first chat of a service pays is not the recipe's. */
  async warm(): Promise<void> {
    await this.#chat({ messages: [{ role: 'user', content: 'Are you there?' }] }, this.#salt());
  }

  async run(name: Case, isCooked: boolean): Promise<Sample> {
    const beganMs = performance.now();
    const used = await this.#used(name, isCooked);
    const evaluated = used.map(({ promptTokens, cachedTokens }) => promptTokens - cachedTokens);
    return {
      value: (performance.now() - beganMs) / 1000,
      errors: 0,
      check: `${used.length} times`,
      beside: { 'tokens evaluated': evaluated.reduce((sum, each) => sum + each, 0) },
    };
  }

  #used(name: Case, isCooked: boolean): Promise<Used[]> {
    if (name === 'few-shot') return this.#fewShot(isCooked);
    if (name === 'handbook') return this.#handbook(isCooked);
    if (name === 'agent') return this.#talk(isCooked);
    return this.#document(isCooked);
  }

  async #document(isCooked: boolean): Promise<Used[]> {
    const messages = [{ role: 'system', content: this.#text() }];
    const cache = isCooked ? await this.#cache({ messages }) : null;
    const used = [];
    for (const question of this.#questions()) {
      used.push(await this.#ask({ messages: [...messages, saying(question)] }, cache));
    }
    return [...madeOf(cache), ...used];
  }

  /** The talk grows, as an agent's does; the tools come first in each prompt. */
  async #talk(isCooked: boolean): Promise<Used[]> {
    const text = this.#text().split(' ');
    const size = Math.ceil(text.length / this.size.tools);
    const tools = Array.from({ length: this.size.tools }, (_, at) =>
      toolOf(at, text.slice(at * size, (at + 1) * size).join(' ')),
    );
    const messages: object[] = [{ role: 'system', content: 'Use the tools.' }];
    const cache = isCooked ? await this.#cache({ messages, tools }) : null;
    const used = [];
    for (const question of this.#questions()) {
      messages.push(saying(question));
      used.push(await this.#ask({ messages, tools }, cache));
      messages.push({ role: 'assistant', content: 'I looked it up.' });
    }
    return [...madeOf(cache), ...used];
  }

  /** Two continuations a question, as a task with choices has them. */
  async #fewShot(isCooked: boolean): Promise<Used[]> {
    const shots = this.#text();
    const used = [];
    for (const question of this.#questions()) {
      const prompts = ['yes', 'no'].map((word) => `${shots}\n${question} ${word}`);
      if (isCooked) used.push(await this.#complete(prompts, null));
      else for (const prompt of prompts) used.push(await this.#complete([prompt], this.#salt()));
    }
    return used;
  }

  async #handbook(isCooked: boolean): Promise<Used[]> {
    const handbook = [{ role: 'system', content: this.#text() }];
    const cache = isCooked ? await this.#cache({ messages: handbook, tags: ['handbook'] }) : null;
    const first = isCooked ? [{ role: 'cache', content: 'tag=handbook' }] : handbook;
    const used = [];
    for (const [at, question] of this.#questions().entries()) {
      const prompt = { messages: [...first, saying(question)] };
      const salt = isCooked ? null : this.#salt();
      used.push(await this.#chat(prompt, salt, null, keys[at % keys.length]));
    }
    return [...madeOf(cache), ...used];
  }

  #text(): string {
    this.#texts += 1;
    const all = prose(this.size.words * 12, this.#texts).split(' ');
    return `${100_000 + this.#texts} is the number of this text. ${all.slice(0, this.size.words).join(' ')}`;
  }

  #questions(): string[] {
    return Array.from({ length: this.size.questions }, (_, at) => `${at}: what does the text say?`);
  }

  /** No other request has it, so that nothing is reused. */
  #salt(): string {
    this.#salts += 1;
    return `salt ${this.#salts}`;
  }

  async #cache(body: Prompt & { readonly tags?: readonly string[] }): Promise<Made> {
    const { id } = await this.#call<Made>('POST', '/caching', { model: FAMILY, ...body });
    const ready = async () => {
      const cache = await this.#call<Made>('GET', `/caching/${id}`);
      if (cache.status === 'pending') return null;
      if (cache.status !== 'ready') throw new Error(`a cache is ${cache.status}`);
      return cache;
    };
    return (await until(ready, READY_MS_MAX, `${id} is ready`)) as Made;
  }

  /** By the recipe with its cache, else with nothing reused. */
  async #ask(prompt: Prompt, cache: Made | null): Promise<Used> {
    return await this.#chat(prompt, cache === null ? this.#salt() : null, cache);
  }

  async #chat(
    prompt: Prompt,
    salt: string | null,
    cache: Made | null = null,
    key = KEY,
  ): Promise<Used> {
    const body = { model: MODEL, ...prompt, max_tokens: ANSWER_TOKENS, cache_salt: salt };
    return await this.#counted('/chat/completions', body, cache, key);
  }

  async #complete(prompt: readonly string[], salt: string | null): Promise<Used> {
    const options = { echo: true, logprobs: 1, max_tokens: 0, cache_salt: salt };
    return await this.#counted('/completions', { model: MODEL, prompt, ...options });
  }

  async #counted(path: string, body: object, cache: Made | null = null, key = KEY): Promise<Used> {
    const headers = cache === null ? {} : { 'x-svc-context-cache': cache.id };
    const { usage } = await this.#call<Answer>('POST', path, body, headers, key);
    return { promptTokens: usage.prompt_tokens, cachedTokens: usage.cached_tokens ?? 0 };
  }

  async #call<T>(
    method: string,
    path: string,
    body?: object,
    more: Readonly<Record<string, string>> = {},
    key = KEY,
  ): Promise<T> {
    const response = await fetch(`http://127.0.0.1:${this.port}/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...more },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as T;
  }
}

interface Made {
  readonly id: string;
  readonly status: string;
  readonly tokens: number;
}

interface Answer {
  readonly usage: { readonly prompt_tokens: number; readonly cached_tokens?: number };
}

/** To make a cache is to evaluate its prefix once. */
function madeOf(cache: Made | null): Used[] {
  return cache === null ? [] : [{ promptTokens: cache.tokens, cachedTokens: 0 }];
}

function saying(content: string): object {
  return { role: 'user', content };
}

function toolOf(at: number, description: string): object {
  const parameters = { type: 'object', properties: { question: { type: 'string' } } };
  return { type: 'function', function: { name: `look_up_${at}`, description, parameters } };
}
