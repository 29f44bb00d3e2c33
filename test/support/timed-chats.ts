/**
 * Owns a second client beside the load, in a process of its own, which measures how long sequential chats take.
 * It must never do other work, nor leave much garbage: the time of both would count as the service's.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { RawClient, request } from './raw-client.js';

interface Client {
  /** Ends in `/v1`. */
  readonly url: string;
  readonly key: string;
}

/** The number of chats, or: until it is told to stop. */
type Task = number | 'until told' | 'stop';

const PAUSE_MS = 10;

export class TimedChats {
  readonly #child: ChildProcess;

  constructor(client: Client) {
    // Linux shares the processor by session: what the sender of the load takes must not count against it.
    const options = { detached: true };
    this.#child = fork(fileURLToPath(import.meta.url), [JSON.stringify(client)], options);
    process.once('exit', this.#end);
  }

  /** @returns the milliseconds of each chat. */
  count(chats: number): Promise<number[]> {
    return this.#run(chats);
  }

  /** Chats as long as other work runs, at least once. */
  async during(task: Promise<unknown>): Promise<number[]> {
    const times = this.#run('until told');
    const stop = () => this.#child.send('stop' satisfies Task);
    task.then(stop, stop);
    return await times;
  }

  async close(): Promise<void> {
    process.off('exit', this.#end);
    if (this.#child.exitCode !== null) return;
    const ended = once(this.#child, 'exit');
    this.#end();
    await ended;
  }

  readonly #end = (): void => void this.#child.kill();

  /** @throws Error when the client ends: it has said why. */
  async #run(task: Task): Promise<number[]> {
    const stop = new AbortController();
    const { signal } = stop;
    const ended = once(this.#child, 'exit', { signal }).then(() => {
      throw new Error('the client of timed chats ended');
    });
    const answered = once(this.#child, 'message', { signal });
    this.#child.send(task);
    const [times] = await Promise.race([answered, ended]);
    // The one that still waits is told to stop, and nobody hears of it.
    ended.catch(() => {});
    stop.abort();
    return times as number[];
  }
}

function serve(client: Client): void {
  const chat = new Chat(client);
  let going = false;
  process.once('disconnect', () => process.exit());
  process.on('message', (task: Task) => {
    going = task !== 'stop';
    if (task === 'stop') return;
    const more = (done: number) => (task === 'until told' ? going : done < task);
    void timed(chat, more).then((times) => process.send?.(times));
  });
}

/** From the first byte sent to the last one read. */
async function timed(chat: Chat, more: (done: number) => boolean): Promise<number[]> {
  const times: number[] = [];
  do {
    const beganMs = performance.now();
    await chat.ask();
    times.push(performance.now() - beganMs);
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  } while (more(times.length));
  return times;
}

/** The same request on one connection, and no more of its answers than where they end. */
class Chat {
  readonly #client: RawClient;
  readonly #request: string;

  constructor({ url, key }: Client) {
    const { port, pathname } = new URL(url);
    const body = JSON.stringify({
      model: 'svc-v1-8k',
      messages: [{ role: 'user', content: 'a few words' }],
    });
    const headers = [
      `authorization: Bearer ${key}`,
      'content-type: application/json',
      `content-length: ${body.length}`,
    ];
    this.#request = request(`POST ${pathname}/chat/completions`, headers, body);
    this.#client = new RawClient(Number(port));
  }

  /** @throws Error where the answer is no success, or does not come whole. */
  async ask(): Promise<void> {
    const client = this.#client;
    client.text = '';
    client.send(this.#request);
    await client.until(({ closed, text }) => closed || isWhole(text));
    const { text } = client;
    if (!isWhole(text) || !text.startsWith('HTTP/1.1 200 ')) throw new Error(`a chat got ${text}`);
  }
}

function isWhole(answer: string): boolean {
  const end = answer.indexOf('\r\n\r\n');
  const length = /\r\ncontent-length: (\d+)/i.exec(answer)?.[1];
  return end >= 0 && length !== undefined && answer.length >= end + 4 + Number(length);
}

if (process.argv[1] === fileURLToPath(import.meta.url) && process.send !== undefined) {
  serve(JSON.parse(process.argv[2] ?? '') as Client);
}
