/**
 * Owns a second client beside the load, in its own thread, which measures how long sequential chats take.
 * It must never share a thread with other work, whose time would count as the service's.
 */
import { once } from 'node:events';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

interface Client {
  /** Ends in `/v1`. */
  readonly url: string;
  readonly key: string;
}

/** The number of chats; null: until it is told to stop. */
type Task = number | null | 'stop';

const PAUSE_MS = 10;

export class TimedChats {
  readonly #worker: Worker;

  constructor(client: Client) {
    this.#worker = new Worker(new URL(import.meta.url), { workerData: client });
  }

  /** @returns the milliseconds of each chat. */
  count(chats: number): Promise<number[]> {
    return this.#run(chats);
  }

  /** Chats as long as other work runs, at least once. */
  async during(task: Promise<unknown>): Promise<number[]> {
    const times = this.#run(null);
    const stop = () => this.#worker.postMessage('stop' satisfies Task);
    task.then(stop, stop);
    return await times;
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }

  async #run(task: Task): Promise<number[]> {
    const answered = once(this.#worker, 'message');
    this.#worker.postMessage(task);
    const [times] = (await answered) as [number[]];
    return times;
  }
}

if (!isMainThread && parentPort) serve(workerData as Client, parentPort);

function serve(client: Client, port: NonNullable<typeof parentPort>): void {
  let going = false;
  port.on('message', (task: Task) => {
    if (task === 'stop') {
      going = false;
      return;
    }
    going = true;
    void timed(client, (done) => (task === null ? going : done < task)).then((times) =>
      port.postMessage(times),
    );
  });
}

/** From the first byte sent to the last one read. */
async function timed({ url, key }: Client, more: (done: number) => boolean): Promise<number[]> {
  const times: number[] = [];
  const body = JSON.stringify({
    model: 'svc-v1-8k',
    messages: [{ role: 'user', content: 'a few words' }],
  });
  do {
    const beganMs = performance.now();
    const response = await fetch(`${url}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body,
    });
    await response.text();
    if (response.status !== 200) throw new Error(`a chat got ${response.status}`);
    times.push(performance.now() - beganMs);
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  } while (more(times.length));
  return times;
}
