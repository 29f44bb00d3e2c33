/**
 * Owns the users, documents, caches and chats that the pictures of the console show.
 * It must never make a figure up: all of them come from requests that the service has answered.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { demoDocument, demoQuestions } from '../../src/cli/demo-document.js';

export interface Place {
  /** Ends in `/v1`. */
  readonly url: string;
  readonly keys: Readonly<Record<string, string>>;
  readonly model: string;
  readonly family: string;
}

const HANDBOOK = demoDocument();
const WORDS_OF_OTHERS = 'You sort letters of customers by what they ask for. '.repeat(40);

export class Traffic {
  readonly #caches = new Map<string, string>();
  #ended = false;
  #asked = 0;

  constructor(readonly place: Place) {}

  async prepare(): Promise<void> {
    await this.#upload('harbour', 'harbour-handbook.txt', HANDBOOK);
    await this.#upload('harbour', 'tide-tables.csv', 'port,height\nA,3.2\nB,2.9\n');
    await this.#upload('letters', 'broken.pdf', '%PDF-1.7 and nothing more');
    await this.#cache('harbour', 'handbook', HANDBOOK);
    await this.#cache('letters', 'sorter', WORDS_OF_OTHERS);
  }

  /** Until `stop`; a few users at a time. */
  async run(): Promise<void> {
    await Promise.all([this.#asks('harbour'), this.#asks('letters'), this.#odd()]);
  }

  stop(): void {
    this.#ended = true;
  }

  async #asks(user: string): Promise<void> {
    while (!this.#ended) {
      const text = user === 'harbour' ? HANDBOOK : WORDS_OF_OTHERS;
      this.#asked += 1;
      // One in six has changed the beginning and misses its cache.
      const system = this.#asked % 6 === 0 ? `Note ${this.#asked}. ${text}` : text;
      const content = demoQuestions[this.#asked % demoQuestions.length] ?? 'Who?';
      const messages = [
        { role: 'system', content: system },
        { role: 'user', content },
      ];
      await this.#chat(user, { messages }, { 'x-svc-context-cache': this.#caches.get(user) ?? '' });
      await sleep(400 + (this.#asked % 5) * 300);
    }
  }

  /** Short chats without a cache, and what is refused. */
  async #odd(): Promise<void> {
    while (!this.#ended) {
      this.#asked += 1;
      const messages = [{ role: 'user', content: `Name ${this.#asked} boats.` }];
      await this.#chat('letters', { messages });
      if (this.#asked % 4 === 0) await this.#chat('harbour', { messages, temperature: 9 });
      await sleep(2_500);
    }
  }

  async #chat(user: string, chat: object, headers: Record<string, string> = {}): Promise<void> {
    const body = { model: this.place.model, max_tokens: 24, ...chat };
    await (await this.#call(user, '/chat/completions', JSON.stringify(body), headers)).text();
  }

  async #cache(user: string, tag: string, content: string): Promise<void> {
    const messages = [{ role: 'system', content }];
    const body = { model: this.place.family, messages, ttl: 3_600, tags: [tag], name: tag };
    const made = await this.#call(user, '/caching', JSON.stringify(body));
    this.#caches.set(user, ((await made.json()) as { id: string }).id);
  }

  async #upload(user: string, name: string, text: string): Promise<void> {
    const form = new FormData();
    form.set('purpose', 'file-extract');
    form.set('file', new File([text], name));
    await (await this.#call(user, '/files', form)).text();
  }

  #call(
    user: string,
    path: string,
    body: string | FormData,
    headers: Record<string, string> = {},
  ): Promise<Response> {
    const authorization = `Bearer ${this.place.keys[user]}`;
    return fetch(this.place.url + path, {
      method: 'POST',
      headers: { authorization, ...headers },
      body,
    });
  }
}
