/**
 * Owns the floor of every HTTP figure: the bare library, which reads the request and answers with given bytes.
 * It must never do more than that, and never less: bodies are received, streams are written chunk by chunk.
 */

import uws, { type HttpResponse, type TemplatedApp } from 'uWebSockets.js';
import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { RawMode } from './servers.js';

const mode = JSON.parse(process.argv[2] ?? '') as RawMode;
const app = uws.App();

if (mode.type === 'answer') serveAnswer(app, 'application/json', Buffer.from(mode.body));
else if (mode.type === 'events') serveAnswer(app, 'text/event-stream', Buffer.from(mode.body));
else if (mode.type === 'sink') serveSink(app, mode.folder);
else serveStreams(app, Buffer.from(mode.chunk), mode.paceMs);

app.listen('127.0.0.1', 0, (socket) => {
  if (!socket) throw new Error('the raw server cannot listen');
  console.log(`listening on http://127.0.0.1:${uws.us_socket_local_port(socket)}`);
});

function serveAnswer(app: TemplatedApp, type: string, body: Buffer): void {
  const answer = (res: HttpResponse): void => {
    res.writeHeader('content-type', type).end(body);
  };
  app.get('/*', answer);
  app.post('/*', (res) => {
    res.onAborted(() => {});
    res.onData((_chunk, last) => {
      if (last) res.cork(() => answer(res));
    });
  });
}

function serveSink(app: TemplatedApp, folder: string | null): void {
  app.post('/*', (res) => {
    const path = folder === null ? null : join(folder, 'sink');
    const file = path === null ? null : openSync(path, 'w');
    res.onAborted(() => {});
    res.onData((chunk, last) => {
      if (file !== null) writeSync(file, new Uint8Array(chunk));
      if (!last) return;
      if (file !== null) {
        fsyncSync(file);
        closeSync(file);
      }
      res.cork(() => res.end('{}'));
    });
  });
}

/** Each turn writes one chunk to each stream, except to a stream with a slow reader. */
function serveStreams(app: TemplatedApp, chunk: Buffer, paceMs: number): void {
  const streams = new Set<HttpResponse>();
  app.post('/*', (res) => {
    res.onAborted(() => void streams.delete(res));
    res.onWritable(() => {
      res.cork(() => {});
      streams.add(res);
      return true;
    });
    res.onData((_chunk, last) => {
      if (!last) return;
      res.cork(() => res.writeHeader('content-type', 'text/event-stream'));
      streams.add(res);
    });
  });
  repeat(paceMs, () => {
    for (const res of streams) {
      res.cork(() => {
        if (!res.write(chunk)) streams.delete(res);
      });
    }
  });
}

function repeat(paceMs: number, turn: () => void): void {
  if (paceMs > 0) {
    setInterval(turn, paceMs);
    return;
  }
  const next = (): void => {
    turn();
    setImmediate(next);
  };
  next();
}
