/**
 * Owns the upload of a form with one large file, in pieces, as fast as the other side accepts them.
 * It must never hold the whole form in memory.
 */
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { resetPeak, statusKilobytes } from './processes.js';

export interface Sent {
  readonly status: number;
  readonly body: string;
  readonly ms: number;
}

/** As long as curl's: the search for the end of the file skips by this length. */
const BOUNDARY = `${'-'.repeat(24)}aBoundaryOfTheBenchRun`;
const head = Buffer.from(
  `--${BOUNDARY}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nfile-extract\r\n` +
    `--${BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="large.bin"\r\n` +
    'Content-Type: application/octet-stream\r\n\r\n',
);
const tail = Buffer.from(`\r\n--${BOUNDARY}--\r\n`);

export async function sendForm(
  port: number,
  pieces: number,
  piece: Buffer,
  headers: Readonly<Record<string, string>>,
): Promise<Sent> {
  const startedMs = performance.now();
  const sending = request({
    host: '127.0.0.1',
    port,
    method: 'POST',
    path: '/v1/files',
    agent: false,
    headers: {
      ...headers,
      'content-type': `multipart/form-data; boundary=${BOUNDARY}`,
      'content-length': head.length + pieces * piece.length + tail.length,
    },
  });
  const answered = once(sending, 'response');
  sending.write(head);
  for (let at = 0; at < pieces; at += 1) {
    if (!sending.write(piece)) await once(sending, 'drain');
  }
  sending.end(tail);
  const [response] = (await answered) as [IncomingMessage];
  const body = await text(response);
  return { status: response.statusCode ?? 0, body, ms: performance.now() - startedMs };
}

/** Begins to watch the resident size of a process: the kernel keeps the highest value. */
export function peakOf(pid: number): { moreMegabytes(): number } {
  resetPeak(pid);
  const before = statusKilobytes(pid, 'VmRSS');
  return { moreMegabytes: () => ((statusKilobytes(pid, 'VmHWM') - before) * 1024) / 1e6 };
}
