/**
 * Owns the drawing of where the time of a chat went: its stages, one after the other.
 * It must never draw a stage that is not over, stretch one to fill a gap, or tell two apart by color alone.
 */
import { drawn, element } from './dom.js';
import * as format from './format.js';

/**
 * @typedef {object} Stage
 * @property {string} name
 * @property {string} kind one of the names in the style sheet: its color and its dashes
 * @property {number} fromMs from the arrival of the request
 * @property {number} ms
 */

/**
 * What is known of one chat; null for what did not happen.
 * @typedef {object} Times
 * @property {number} duration_ms
 * @property {number | null} first_content_ms
 * @property {Readonly<Record<string, number | null>> | null} stages
 */

const NAMES = /** @type {const} */ ([
  ['tokenize_ms', 'Tokenize', 'tokenize'],
  ['cache_ms', 'Cache', 'cache'],
  ['queue_ms', 'Queue, load', 'queue'],
  ['prefill_ms', 'Prefill', 'prefill'],
  ['generate_ms', 'Generate', 'generate'],
]);

/** Of what is not a stage: below this it is not worth a row. */
const SHOWN_MS_MIN = 0.5;

/**
 * The stages follow each other up to the first content; what is left before them is reading, after them writing.
 * @param {Times} times
 * @returns {Stage[]}
 */
export function stagesOf({ duration_ms: durationMs, first_content_ms: firstMs, stages }) {
  if (stages === null) return [{ name: 'Answer', kind: 'rest', fromMs: 0, ms: durationMs }];
  const all = NAMES.map(([field, name, kind]) => ({ name, kind, ms: stages[field] ?? null }));
  const sum = all.reduce((ms, stage) => ms + (stage.ms ?? 0), 0);
  const generateMs = stages.generate_ms ?? 0;
  const restMs = Math.max(0, durationMs - sum);
  const readMs = firstMs === null ? restMs : Math.max(0, firstMs - (sum - generateMs));
  /** @type {Stage[]} */
  const drawnStages = [{ name: 'Read', kind: 'read', fromMs: 0, ms: readMs }];
  let fromMs = readMs;
  for (const { name, kind, ms } of all) {
    if (ms === null) continue;
    drawnStages.push({ name, kind, fromMs, ms });
    fromMs += ms;
  }
  const endMs = Math.max(0, durationMs - fromMs);
  if (endMs >= SHOWN_MS_MIN) drawnStages.push({ name: 'Finish', kind: 'rest', fromMs, ms: endMs });
  return drawnStages;
}

/**
 * All stages in one bar.
 * @param {readonly Stage[]} stages
 * @param {string} label
 */
export function stageBar(stages, label) {
  const endMs = endOf(stages);
  const parts = stages.map(({ kind, fromMs, ms }) => part(kind, fromMs / endMs, ms / endMs));
  return bar(label, parts);
}

/**
 * A row for each stage, on one scale of time.
 * @param {readonly Stage[]} stages
 * @param {number} [scaleMs] the whole width, by default the end of the last
 */
export function waterfall(stages, scaleMs = endOf(stages)) {
  return element(
    'ol',
    { class: 'waterfall' },
    ...stages.map(({ name, kind, fromMs, ms }) =>
      element(
        'li',
        {},
        element('span', {}, name),
        bar('', [part(kind, fromMs / scaleMs, ms / scaleMs)]),
        element('span', { class: 'number' }, format.milliseconds(ms)),
      ),
    ),
  );
}

/** @param {readonly Stage[]} stages */
function endOf(stages) {
  return Math.max(...stages.map(({ fromMs, ms }) => fromMs + ms), Number.MIN_VALUE);
}

const WIDTH = 1000;
const HEIGHT = 10;
const MIDDLE = HEIGHT / 2;
/** What took no time to speak of still has a place. */
const NARROWEST = 4;

/** @param {string} kind @param {number} from 0…1 @param {number} length 0…1 */
function part(kind, from, length) {
  const width = Math.max(length * WIDTH, NARROWEST);
  const x = Math.min(from * WIDTH, WIDTH - width);
  return drawn('line', { class: `stage ${kind}`, x1: x, x2: x + width, y1: MIDDLE, y2: MIDDLE });
}

/** @param {string} label empty where the text beside it says it all @param {Node[]} parts */
function bar(label, parts) {
  const named = label === '' ? { 'aria-hidden': 'true' } : { role: 'img', 'aria-label': label };
  const view = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', class: 'stages' };
  return drawn('svg', { ...view, ...named }, ...parts);
}
