/**
 * Owns the drawings of the history: which lines there are, how they look, and what stands beside them.
 * It must never tell two lines apart by color alone: each has a dash of its own, in the drawing and in its key.
 */
import { drawn, element } from '../shared/dom.js';
import * as format from '../shared/format.js';
import uPlot from '../shared/uplot.js';

/** @typedef {import('../shared/api.js').Json} Json */

/**
 * @typedef {object} Line
 * @property {string} name
 * @property {(history: Json) => (number | null)[]} read
 */

/**
 * @typedef {object} Chart
 * @property {string} title
 * @property {(value: number) => string} unit
 * @property {readonly Line[]} lines three at most
 * @property {boolean} [dots] there are steps without a value, so that a line may be a single point
 * @property {number} [most] the scale ends there
 * @property {number[]} [ticks] steps of the scale, where powers of ten would look odd
 * @property {(history: Json) => string} note of the whole span
 */

const DASHES = [[], [7, 4], [2, 3]];
const HEIGHT = 170;
/** Of whole minutes, as the labels are. */
const TICKS_S = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360].map((minutes) => minutes * 60);
/** Whole chats, and whole powers of two from one MiB on. */
const TICKS_COUNT = [1, 2, 5, 10, 20, 50, 100, 200, 500];
const TICKS_BYTES = Array.from({ length: 24 }, (_, i) => 2 ** (20 + i));
/** A service that has just started shows this much. */
const WIDTH_S_MIN = 120;

/** @param {readonly number[]} values */
function total(values) {
  return values.reduce((sum, each) => sum + each, 0);
}

/** @param {readonly number[]} values @param {Json} history @param {number} [seconds] */
function paced(values, { step_seconds: stepS }, seconds = 1) {
  return values.map((value) => (value / stepS) * seconds);
}

/** @param {readonly number[]} parts @param {readonly number[]} wholes */
function shares(parts, wholes) {
  return wholes.map((whole, i) => (whole === 0 ? null : (parts[i] ?? 0) / whole));
}

/** @param {Json} history */
function reuseNote({ cache_hits: hits, cache_lookups: named, saved_tokens, prompt_tokens }) {
  const prompt = total(prompt_tokens);
  if (prompt === 0) return 'no chat yet';
  const saved = `${format.share(total(saved_tokens) / prompt)} of prompt tokens saved`;
  return total(named) === 0
    ? saved
    : `${total(hits)} of ${total(named)} named caches hit, ${saved}`;
}

/** An engine in a thread has no memory of its own to tell. @param {Json} of */
function memoryNote({ memory_engines_bytes: engines, memory_main_bytes: main }) {
  const most = [engines, main].map((bytes) => Math.max(0, ...bytes)).filter((bytes) => bytes > 0);
  return `at most ${most.map(format.bytes).join(' and ')}`;
}

/** @type {readonly Chart[]} */
export const charts = [
  {
    title: 'Requests a minute',
    unit: format.rate,
    lines: [
      { name: 'all', read: (of) => paced(of.requests, of, 60) },
      { name: 'refused (4xx)', read: (of) => paced(of.refused, of, 60) },
      { name: 'failed (5xx)', read: (of) => paced(of.failed, of, 60) },
    ],
    note: (of) => `${format.count(total(of.requests))} in all, ${total(of.failed)} failed`,
  },
  {
    title: 'Tokens a second',
    unit: format.rate,
    lines: [
      { name: 'in', read: (of) => paced(of.prompt_tokens, of) },
      { name: 'saved', read: (of) => paced(of.saved_tokens, of) },
      { name: 'out', read: (of) => paced(of.completion_tokens, of) },
    ],
    note: (of) =>
      `${format.count(total(of.prompt_tokens))} in, ${format.count(total(of.saved_tokens))} of them saved, ${format.count(total(of.completion_tokens))} out`,
  },
  {
    title: 'Time to first content',
    unit: format.milliseconds,
    dots: true,
    lines: [
      { name: 'p50', read: (of) => of.first_content_ms.p50 },
      { name: 'p95', read: (of) => of.first_content_ms.p95 },
      { name: 'p99', read: (of) => of.first_content_ms.p99 },
    ],
    note: (of) => {
      const worst = Math.max(...of.first_content_ms.p99);
      return worst > 0 ? `${format.milliseconds(worst)} in the slowest step` : 'no chat yet';
    },
  },
  {
    title: 'Reuse',
    unit: format.share,
    most: 1,
    dots: true,
    lines: [
      { name: 'prompt tokens saved', read: (of) => shares(of.saved_tokens, of.prompt_tokens) },
      { name: 'named caches hit', read: (of) => shares(of.cache_hits, of.cache_lookups) },
    ],
    note: reuseNote,
  },
  {
    title: 'Chats',
    unit: format.rate,
    ticks: TICKS_COUNT,
    lines: [
      { name: 'running', read: (of) => of.chats_running },
      { name: 'waiting', read: (of) => of.chats_waiting },
    ],
    note: (of) =>
      `at most ${Math.max(0, ...of.chats_running)} running and ${Math.max(0, ...of.chats_waiting)} waiting`,
  },
  {
    title: 'Memory',
    unit: format.bytes,
    ticks: TICKS_BYTES,
    lines: [
      { name: 'engines', read: (of) => of.memory_engines_bytes },
      { name: 'main process', read: (of) => of.memory_main_bytes },
    ],
    note: memoryNote,
  },
];

export class HistoryChart {
  /** @param {Chart} chart */
  constructor(chart) {
    this.chart = chart;
    /** @type {uPlot | null} */
    this.plot = null;
    this.title = element('figcaption', {}, element('strong', {}, chart.title), ' ');
    this.note = element('small');
    this.title.append(this.note);
    this.place = element('div', { class: 'plot', role: 'img' });
    this.values = chart.lines.map(() => element('b'));
    this.keys = element(
      'ul',
      { class: 'keys' },
      ...chart.lines.map(({ name }, i) => keyOf(i, name, this.values[i])),
    );
    this.root = element('figure', { class: 'chart' }, this.title, this.place, this.keys);
    new ResizeObserver(() => this.resize()).observe(this.place);
  }

  /** @param {Json} history */
  show(history) {
    const { chart } = this;
    // The last step is not over: its counts would look like a fall.
    const whole = Math.max(history.requests.length - 1, 1);
    const times = Array.from({ length: whole }, (_, i) => at(history, i));
    const series = chart.lines.map(({ read }) => read(history).slice(0, whole));
    this.range = rangeOf(history);
    const note = chart.note(history);
    this.note.textContent = note;
    this.place.setAttribute('aria-label', `${chart.title}: ${note}`);
    const data = /** @type {uPlot.AlignedData} */ ([times, ...series]);
    if (this.plot === null) this.plot = new uPlot(this.options(), data, this.place);
    else this.plot.setData(data);
    this.tell(null);
  }

  /** After the colors of the system changed. */
  redraw() {
    this.plot?.redraw();
  }

  resize() {
    const { clientWidth: width } = this.place;
    if (width > 0) this.plot?.setSize({ width, height: HEIGHT });
  }

  /** As the style sheet has it for the key, in this scheme. @param {number} i */
  color(i) {
    const line = this.keys.querySelector(`.series-${i + 1}`);
    return line === null ? '' : getComputedStyle(line).stroke;
  }

  /** Beside each key: the value under the pointer, else the last whole step. @param {number | null} at */
  tell(at) {
    const { data = [] } = this.plot ?? {};
    const last = (data[0]?.length ?? 1) - 1;
    this.values.forEach((place, i) => {
      const value = data[i + 1]?.[at ?? last];
      place.textContent = value === null || value === undefined ? '–' : this.chart.unit(value);
    });
  }

  /** @returns {uPlot.Options} */
  options() {
    const { chart } = this;
    const quiet = () => getComputedStyle(this.note).color;
    const grid = { stroke: () => getComputedStyle(this.root).borderTopColor, width: 1 };
    const axis = { stroke: quiet, grid, ticks: grid, font: '12px system-ui' };
    return {
      width: Math.max(this.place.clientWidth, 200),
      height: HEIGHT,
      legend: { show: false },
      cursor: { y: false, sync: { key: 'history' }, drag: { x: false, y: false } },
      scales: {
        x: { range: () => this.range ?? [0, 1] },
        y: { range: (_plot, _least, most) => [0, chart.most ?? ceiling(most)] },
      },
      axes: [
        {
          ...axis,
          size: 32,
          incrs: TICKS_S,
          values: (_plot, splits) => splits.map((at) => format.time(at).slice(0, 5)),
        },
        {
          ...axis,
          size: 76,
          ...(chart.ticks === undefined ? {} : { incrs: chart.ticks }),
          values: (_plot, splits) => splits.map((at) => chart.unit(at)),
        },
      ],
      series: [
        {},
        ...chart.lines.map((_line, i) => ({
          stroke: () => this.color(i),
          width: 2,
          dash: DASHES[i] ?? [],
          points: { show: chart.dots === true, size: 5, fill: () => this.color(i) },
        })),
      ],
      hooks: { setCursor: [(plot) => this.tell(plot.cursor.idx ?? null)] },
    };
  }
}

/** @param {Json} history @param {number} step */
function at({ first_at: firstS, step_seconds: stepS }, step) {
  return firstS + step * stepS;
}

/** The whole span; of a young service what there is. @param {Json} history @returns {[number, number]} */
function rangeOf(history) {
  const { step_seconds: stepS, steps, requests } = history;
  const endS = at(history, requests.length - 1);
  const widthS = Math.min(Math.max(requests.length * stepS, WIDTH_S_MIN), steps * stepS);
  return [endS - widthS, endS];
}

/** A line that lies on the floor still has some air above. @param {number | null} most */
function ceiling(most) {
  return most === null || most <= 0 ? 1 : most * 1.08;
}

/** @param {number} i @param {string} name @param {HTMLElement | undefined} value */
function keyOf(i, name, value) {
  const line = drawn('line', {
    x1: 0,
    y1: 5,
    x2: 28,
    y2: 5,
    class: `series-${i + 1}`,
    'stroke-dasharray': (DASHES[i] ?? []).join(' '),
  });
  const sample = drawn('svg', { viewBox: '0 0 28 10', 'aria-hidden': 'true' }, line);
  return element('li', {}, sample, `${name} `, value ?? null);
}
