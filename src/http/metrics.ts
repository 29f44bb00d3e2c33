/**
 * Owns `GET /metrics`: who may read the figures of the service.
 * It must never show them to a client's key, nor to another machine that has no key for them.
 */
import { ApiError } from '../errors.js';
import type { Exchange } from './exchange.js';
import { OperatorKey } from './operator-key.js';
import { type Route, route } from './router.js';

export interface Figures {
  readonly contentType: string;
  text(): Promise<string>;
}

/**
 * @param key opens the figures, as the operator's do; null: a connection of this machine needs none.
 */
export function metricsRoutes(figures: Figures, key: string | null, admin: OperatorKey): Route[] {
  const either = new OperatorKey([key], admin);
  const wantsKey = (exchange: Exchange) =>
    key !== null || (admin.exist && exchange.header('authorization') !== undefined);
  const handle = async (exchange: Exchange) => {
    if (wantsKey(exchange)) either.check(exchange);
    else if (!isLocal(exchange)) throw new ApiError('notFound', { kind: 'route', id: '/metrics' });
    const text = await figures.text();
    if (!exchange.gone) exchange.reply(200, text, { 'content-type': figures.contentType });
  };
  return [route('GET', '/metrics', handle)];
}

/** Headers in which a proxy names its client; a proxy on this machine without them looks like a local reader. */
const PROXY_HEADERS = [
  'forwarded',
  'via',
  'x-real-ip',
  ...['for', 'host', 'port', 'proto', 'server'].map((what) => `x-forwarded-${what}`),
];
const LOCAL_HOST = /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?$/i;

/** Checks the peer's address and the Host header: a web page may resolve a name of its own to this machine. */
function isLocal(exchange: Exchange): boolean {
  return (
    isLoopback(exchange.peerAddress()) &&
    LOCAL_HOST.test(exchange.header('host') ?? '') &&
    PROXY_HEADERS.every((name) => exchange.header(name) === undefined)
  );
}

const IPV4_IN_IPV6 = [...Array<number>(10).fill(0), 0xff, 0xff];

function isLoopback(address: Uint8Array): boolean {
  if (address.length === 4) return address[0] === 127;
  if (address.length !== 16) return false;
  if (IPV4_IN_IPV6.every((byte, i) => address[i] === byte)) return address[12] === 127;
  return address.subarray(0, 15).every((byte) => byte === 0) && address[15] === 1;
}
