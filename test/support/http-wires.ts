/**
 * Owns answers of HTTP as servers may write them, whole, damaged and in parts, what Node's own client reads of them, and a server
 * that writes them.
 * It must never make one that depends on anything but the random source it is given.
 */
import { get, type IncomingMessage } from 'node:http';
import { createServer, type Server, type Socket } from 'node:net';
import type { Test } from 'tap';
import type { Random } from '../../src/plugin/test/random-text.js';
import { listen } from './listen.js';

/** What a client makes of an answer. */
export interface Read {
  readonly status: number;
  readonly text: string;
}

/** By Node, which keeps no connection here. */
export function readByNode(url: string): Promise<Read | null> {
  return new Promise((resolve) => {
    const asked = get(`${url}/x`, { agent: false }, (response: IncomingMessage) => {
      const parts: Buffer[] = [];
      response.on('data', (part: Buffer) => void parts.push(part));
      response.on('error', () => resolve(null));
      response.on('end', () => {
        const text = Buffer.concat(parts).toString('utf8');
        resolve(response.complete ? { status: response.statusCode ?? 0, text } : null);
      });
    });
    asked.on('error', () => resolve(null));
  });
}

const pick = <Of>(random: Random, all: readonly Of[]): Of => all[random(all.length)] as Of;

function body(random: Random): string {
  const length = pick(random, [0, 1, 7, 300, 5_000]);
  return Array.from({ length }, () => pick(random, ['a', '{', '\n', '\r', ':', '"', '0'])).join('');
}

function chunked(random: Random, text: string): string {
  let wire = '';
  for (let at = 0; at < text.length; ) {
    const part = text.slice(at, at + 1 + random(900));
    const size = part.length.toString(16);
    wire += `${random(10) < 5 ? size : size.toUpperCase()}${random(10) < 2 ? ';a=b' : ''}\r\n${part}\r\n`;
    at += part.length;
  }
  return `${wire}0\r\n${random(10) < 2 ? 'X-Sum: 1\r\n' : ''}\r\n`;
}

/** As a server may write it. */
export function wire(random: Random): { bytes: string; text: string } {
  const text = body(random);
  const informal = random(10) < 2 ? 'HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\n' : '';
  const minor = random(10) < 2 ? '0' : '1';
  const status = `HTTP/1.${minor} ${pick(random, ['200 OK', '200 ', '429 Too Many', '503'])}`;
  const framing = pick(random, minor === '1' ? ['length', 'chunks', 'end'] : ['length', 'end']);
  const lengthName = pick(random, ['Content-Length', 'content-length', 'CONTENT-LENGTH']);
  const headers = [
    status,
    'Server: test',
    ...(random(10) < 3 ? ['Connection: close'] : []),
    ...(random(10) < 3 ? ['X-Empty:', 'X-Two: a', 'X-Two: b'] : []),
    ...(framing === 'length'
      ? [`${lengthName}:${pick(random, ['', ' ', '\t'])}${text.length} `]
      : []),
    ...(framing === 'chunks' ? ['Transfer-Encoding: Chunked'] : []),
  ];
  const sent = framing === 'chunks' ? chunked(random, text) : text;
  return { bytes: `${informal}${headers.join('\r\n')}\r\n\r\n${sent}`, text };
}

export function damaged(random: Random, bytes: string): string {
  const at = random(Math.min(bytes.length, 400));
  const put = pick(random, [
    '\0',
    '\n',
    '\r\n',
    ' ',
    ':',
    'f',
    '-',
    '\x7f',
    '',
    'HTTP/1.1 200\r\n',
  ]);
  if (random(10) < 2) return bytes.slice(0, at);
  return bytes.slice(0, at) + put + bytes.slice(at + random(3));
}

export function inParts(random: Random, bytes: string): Buffer[] {
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const length = 1 + random(pick(random, [2, 40, 6_000]));
    parts.push(Buffer.from(bytes.slice(at, at + length), 'latin1'));
    at += length;
  }
  return parts;
}

export type Serve = (socket: Socket, request: string, number: number) => void;

/** A server that answers each whole request as it is told; `number` counts the connections. */
export async function serveWires(t: Test, act: Serve): Promise<{ server: Server; origin: string }> {
  let connections = 0;
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    const number = ++connections;
    open.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => open.delete(socket));
    let text = '';
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1');
      for (let end = endOf(text); end !== null; end = endOf(text)) {
        const request = text.slice(0, end);
        text = text.slice(end);
        act(socket, request, number);
      }
    });
  });
  t.teardown(() => {
    for (const socket of open) socket.destroy();
  });
  return { server, origin: `http://127.0.0.1:${await listen(t, server)}` };
}

function endOf(text: string): number | null {
  const head = text.indexOf('\r\n\r\n');
  if (head < 0) return null;
  const end = head + 4 + Number(/content-length: (\d+)/.exec(text.slice(0, head))?.[1] ?? 0);
  return text.length < end ? null : end;
}
