/**
 * Owns the reading of a stream of server-sent events: bytes in, the data of each event out, within a bound.
 * It must never interpret the data.
 */
import { createParser } from 'eventsource-parser';
import { limits } from 'preface/plugin';
import { broken } from './failure.js';

/** Skips comments, other fields and an incomplete event at the end. */
export async function* serverEvents(bytes: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let lastMs = performance.now();
  const decoder = new TextDecoder();
  const ready: string[] = [];
  let tooLong = false;
  const parser = createParser({
    maxBufferSize: limits.upstreamEventBytesMax,
    onEvent: ({ data }) => void ready.push(data),
    onError: ({ type }) => {
      tooLong ||= type === 'max-buffer-size-exceeded';
    },
  });
  for await (const chunk of bytes) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    if (tooLong) throw broken(`an event is longer than ${limits.upstreamEventBytesMax} bytes`);
    // Comments keep a connection open while a prompt is evaluated, but not for ever.
    if (ready.length > 0) lastMs = performance.now();
    else if (performance.now() - lastMs > limits.upstreamEventMsMax) {
      throw broken(`no event for ${limits.upstreamEventMsMax} ms`);
    }
    yield* ready.splice(0);
  }
}
