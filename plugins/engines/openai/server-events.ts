/**
 * Owns the reading of a stream of server-sent events: bytes in, the data of each event out, within a bound.
 * It must never know what the data means.
 */
import { createParser } from 'eventsource-parser';
import { limits } from 'preface/plugin';
import { broken } from './failure.js';

/** Comments, other fields and half events at the end are left out. */
export async function* serverEvents(bytes: AsyncIterable<Buffer>): AsyncGenerator<string> {
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
    yield* ready.splice(0);
  }
}
