/**
 * Owns the part of a model's settings that says which servers run it, and how long each may be silent.
 * It must never show a key, nor ask a server anything: whether one answers is found out while the service runs.
 */
import { limits } from '../limits/index.js';
import { integer, type Kind, pattern, secret } from './kinds.js';
import type { Json, Place } from './place.js';

export interface UpstreamConfig {
  /** Base URL as SDKs take it, without a slash at its end. */
  readonly url: string;
  readonly apiKey: string | null;
  /** The model's id there. */
  readonly model: string;
}

export interface RemoteConfig {
  readonly upstreams: readonly UpstreamConfig[];
  readonly connectMs: number;
  readonly firstByteMs: number;
  readonly silenceMs: number;
  readonly healthMs: number;
}

const MS_MAX = 24 * 60 * 60_000;

const timeouts = {
  connectMs: limits.upstreamConnectMs,
  firstByteMs: limits.upstreamFirstByteMs,
  silenceMs: limits.upstreamSilenceMs,
  healthMs: limits.upstreamHealthMs,
} as const;

/** @param id the model's own id, which is mostly its id there too. */
export function readRemote(id: string, entry: Json, place: Place): RemoteConfig {
  const written = entry.upstreams;
  const at = place.in('upstreams');
  if (!Array.isArray(written) || written.length === 0 || written.length > limits.upstreamsMax) {
    const came = Array.isArray(written) ? `${written.length} of them` : typeof written;
    throw at.wrong(came, `a list of 1 to ${limits.upstreamsMax} {"url", "apiKey", "model"}`);
  }
  const given = entry.timeouts ?? {};
  place.in('timeouts').checkKeys(place.in('timeouts').object(given), Object.keys(timeouts));
  const ms = (name: keyof typeof timeouts) => {
    const value = (given as Json)[name] ?? timeouts[name];
    return place.in('timeouts').in(name).read(integer(1, MS_MAX), value);
  };
  return {
    upstreams: written.map((each, index) => readUpstream(id, each, at.in(String(index)))),
    connectMs: ms('connectMs'),
    firstByteMs: ms('firstByteMs'),
    silenceMs: ms('silenceMs'),
    healthMs: ms('healthMs'),
  };
}

const modelName = pattern(/^[\x21-\x7e]{1,256}$/, 'printable ASCII (at most 256)');

function readUpstream(id: string, raw: unknown, place: Place): UpstreamConfig {
  const entry = place.object(raw);
  place.checkKeys(entry, ['url', 'apiKey', 'model']);
  return {
    url: place.in('url').read(baseUrl, entry.url),
    apiKey:
      (entry.apiKey ?? null) === null ? null : place.in('apiKey').read(secret(), entry.apiKey),
    model: place.in('model').read(modelName, entry.model ?? id),
  };
}

/** A key in the address would stand in logs and in what is said of a failure. */
const baseUrl: Kind<string> = {
  allowed: 'an http or https address without user, query or fragment, like http://10.0.0.7:8000/v1',
  read(raw) {
    if (typeof raw !== 'string' || !URL.canParse(raw)) return undefined;
    const { protocol, username, password, search, hash, href } = new URL(raw);
    const plain = username === '' && password === '' && search === '' && hash === '';
    const web = protocol === 'http:' || protocol === 'https:';
    return plain && web ? href.replace(/\/+$/, '') : undefined;
  },
  describe: (raw) =>
    typeof raw === 'string' && !raw.includes('@')
      ? JSON.stringify(raw)
      : 'a value that is not shown',
};
