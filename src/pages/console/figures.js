/**
 * Owns the reading of /metrics: counts of now and of before, and what happened in between.
 * It must never divide by a time that has not passed.
 */

/** @typedef {{ readonly labels: Readonly<Record<string, string>>, readonly value: number }} Sample */
/** @typedef {ReadonlyMap<string, readonly Sample[]>} Figures */

const LINE = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/;
const LABEL = /([a-z_]+)="((?:[^"\\]|\\.)*)"/g;

/**
 * @param {string} text as Prometheus reads it
 * @returns {Figures}
 */
export function parseFigures(text) {
  /** @type {Map<string, Sample[]>} */
  const figures = new Map();
  for (const line of text.split('\n')) {
    const [, name, labels = '', value] = LINE.exec(line) ?? [];
    if (name === undefined || value === undefined) continue;
    const found = Object.fromEntries(
      [...labels.matchAll(LABEL)].map(([, label = '', of = '']) => [label, of]),
    );
    const samples = figures.get(name) ?? [];
    samples.push({ labels: found, value: Number(value) });
    figures.set(name, samples);
  }
  return figures;
}

/**
 * @param {Figures} figures
 * @param {string} name
 * @param {(labels: Readonly<Record<string, string>>) => boolean} [wanted]
 */
export function sum(figures, name, wanted = () => true) {
  let all = 0;
  for (const { labels, value } of figures.get(name) ?? []) if (wanted(labels)) all += value;
  return all;
}

/**
 * Of what a histogram took between two looks, by its buckets.
 * @param {Figures} before
 * @param {Figures} now
 * @param {string} name without `_bucket`
 * @param {number} share 0…1
 * @returns {number | null} null: nothing was taken
 */
export function quantile(before, now, name, share) {
  const at = (/** @type {Figures} */ figures, /** @type {string} */ le) =>
    sum(figures, `${name}_bucket`, (labels) => labels.le === le);
  const bounds = (now.get(`${name}_bucket`) ?? [])
    .map(({ labels }) => labels.le ?? '+Inf')
    .map((le) => ({
      le: le === '+Inf' ? Infinity : Number(le),
      taken: at(now, le) - at(before, le),
    }))
    .sort((a, b) => a.le - b.le);
  const wanted = (bounds.at(-1)?.taken ?? 0) * share;
  if (wanted === 0) return null;
  let below = { le: 0, taken: 0 };
  for (const bound of bounds) {
    if (bound.taken >= wanted) {
      if (bound.le === Infinity) return below.le;
      const part = (wanted - below.taken) / (bound.taken - below.taken);
      return below.le + part * (bound.le - below.le);
    }
    below = bound;
  }
  return below.le;
}
