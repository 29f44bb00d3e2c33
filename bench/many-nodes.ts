/**
 * Owns the question what load a million caches put on a thousand nodes, and which node is overloaded first.
 * It must never be taken for a measurement: it is arithmetic over a model, the same each time.
 *
 * `node dist/bench/many-nodes.js` prints the table of the page on deployment.
 */
import { pathToFileURL } from 'node:url';
import { limits } from '../src/limits/index.js';
import { type NodeLoad, type RingPlan, ringLoads } from './support/node-ring.js';

/** Bytes on disk of a token in a snapshot, with the default model. */
const BYTES_PER_TOKEN = 23_057;
const GB = 1e9;

export const plan: RingPlan = {
  nodes: 1_000,
  points: 1_024,
  owners: 100_000,
  caches: 1_000_000,
  ownerTokensMax: limits.accountCachedTokensDefault,
  seed: 20,
};

export function manyNodesMarkdown(): string {
  const rows = [16, 256, 1_024].map((points) => row({ ...plan, points }));
  return [
    '| points of a node on the ring | owners a node: mean, p99, most | caches | tokens, millions | disk of prefixes, GB |',
    '|---|---|---|---|---|',
    ...rows,
  ].join('\n');
}

function row(each: RingPlan): string {
  const loads = ringLoads(each);
  const cells = [
    spread(loads, ({ owners }) => owners),
    spread(loads, ({ caches }) => caches),
    spread(loads, ({ tokens }) => tokens / 1e6, 1),
    spread(loads, ({ tokens }) => (tokens * BYTES_PER_TOKEN) / GB),
  ];
  return `| ${each.points} | ${cells.join(' | ')} |`;
}

function spread(loads: readonly NodeLoad[], value: (load: NodeLoad) => number, digits = 0): string {
  const values = loads.map(value).sort((a, b) => a - b);
  const mean = values.reduce((sum, each) => sum + each, 0) / values.length;
  const at = (share: number) => values[Math.ceil(share * values.length) - 1] ?? 0;
  return [mean, at(0.99), at(1)].map((each) => each.toFixed(digits)).join(', ');
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  process.stdout.write(`${manyNodesMarkdown()}\n`);
}
