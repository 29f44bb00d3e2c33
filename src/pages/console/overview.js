/**
 * Owns the view of the running service: what it does now, and what it did over the last hour or day.
 * It must never ask more often than it shows.
 */
import { byId, chooser, element, labelled, numbers, sparkline, table } from '../shared/dom.js';
import * as format from '../shared/format.js';
import { charts, HistoryChart } from './charts.js';
import { parseFigures, quantile, sum } from './figures.js';
import { FollowedView } from './follower.js';

/** @typedef {import('../shared/api.js').Json} Json */

const EVERY_MS = 2000;
/** Two minutes. */
const LOOKS_MAX = 60;
/** Ten seconds. */
const AVERAGED = 5;
/** A step of the history of the last hour takes as long. */
const HISTORY_EVERY = 5;
const FIRST_CONTENT = 'preface_chat_first_content_seconds';

/** @typedef {{ readonly atMs: number, readonly figures: import('./figures.js').Figures }} Look */

export class Overview extends FollowedView {
  /** @param {import('../shared/api.js').Api} api */
  constructor(api) {
    super(api, EVERY_MS);
    /** @type {Look[]} */
    this.looks = [];
    this.looked = 0;
    this.span = 'hour';
    this.charts = charts.map((chart) => new HistoryChart(chart));
    byId('history').replaceChildren(
      this.spans(),
      element('div', { class: 'charts' }, ...this.charts.map(({ root }) => root)),
    );
    const dark = matchMedia('(prefers-color-scheme: dark)');
    dark.addEventListener('change', () => {
      for (const chart of this.charts) chart.redraw();
    });
  }

  /** @override */
  async show() {
    const [status, text] = await Promise.all([
      this.api.get('/admin/v1/status'),
      this.api.text('/metrics'),
    ]);
    this.looks.push({ atMs: performance.now(), figures: parseFigures(text) });
    if (this.looks.length > LOOKS_MAX) this.looks.shift();
    byId('version').textContent = status.version;
    byId('tiles').replaceChildren(...this.tiles(status));
    byId('overview-tables').replaceChildren(...tables(status, this.looks.at(-1)));
    if (this.looked % HISTORY_EVERY === 0) await this.showHistory();
    this.looked += 1;
  }

  async showHistory() {
    const history = await this.api.get(`/admin/v1/history?span=${this.span}`);
    for (const chart of this.charts) chart.show(history);
  }

  /** @override */
  leave() {
    super.leave();
    this.looked = 0;
  }

  spans() {
    const options = /** @type {const} */ ([
      ['hour', 'the last hour, in steps of 10 s'],
      ['day', 'the last day, in steps of 5 min'],
    ]);
    const choose = chooser(
      'span',
      options,
      (span) => {
        this.span = span;
        this.showHistory().catch((fault) => this.failed(fault));
      },
      this.span,
    );
    return element(
      'p',
      { class: 'controls' },
      labelled('History of', choose),
      element('small', {}, 'in the memory of the service, since it started'),
    );
  }

  /** @param {Json} status */
  tiles(status) {
    /** @param {string} name */
    const tokens = (name) => this.rates((figures) => sum(figures, name));
    const requests = this.rates((figures) =>
      sum(
        figures,
        'preface_http_requests_total',
        ({ route }) => route?.startsWith('/v1/') ?? false,
      ),
    );
    return [
      rateTile('Requests a second', requests),
      rateTile('Prompt tokens a second', tokens('preface_prompt_tokens_total')),
      rateTile('Tokens saved a second', tokens('preface_saved_tokens_total')),
      rateTile('Tokens out a second', tokens('preface_completion_tokens_total')),
      tile(
        'Time to first content',
        this.firstContent(),
        'median and 95th percentile of two minutes',
      ),
      tile('Chats', `${status.chats.running} running`, `${status.chats.waiting} waiting`),
      tile(
        'Extractions',
        `${status.extractions.reading} running`,
        `${status.extractions.waiting} waiting`,
      ),
      tile(
        'Uptime',
        format.duration(status.uptime_seconds),
        `since ${format.dateTime(status.started_at)}, ${restarts(status)} workers replaced`,
      ),
    ];
  }

  firstContent() {
    const [first, last] = [this.looks[0], this.looks.at(-1)];
    if (first === undefined || last === undefined) return '–';
    const shares = [0.5, 0.95].map((share) =>
      quantile(first.figures, last.figures, FIRST_CONTENT, share),
    );
    return shares.map((s) => (s === null ? '–' : format.milliseconds(s * 1000))).join(' / ');
  }

  /**
   * Between each look and the one before.
   * @param {(figures: import('./figures.js').Figures) => number} read
   */
  rates(read) {
    return this.looks.slice(1).map(({ atMs, figures }, i) => {
      const before = this.looks[i];
      if (before === undefined || atMs <= before.atMs) return 0;
      // A server that was started again begins at nothing.
      return Math.max(0, read(figures) - read(before.figures)) / ((atMs - before.atMs) / 1000);
    });
  }
}

/** @param {Json} status */
function restarts({ worker_restarts: by }) {
  return Object.values(by).reduce((all, each) => all + each, 0);
}

/**
 * @param {string} title
 * @param {readonly number[]} rates
 */
function rateTile(title, rates) {
  const latest = rates.slice(-AVERAGED);
  const now = latest.reduce((all, each) => all + each, 0) / Math.max(latest.length, 1);
  const made = tile(title, format.rate(now), null);
  made.append(sparkline(rates, `${title} over two minutes, now ${format.rate(now)}`));
  return made;
}

/**
 * @param {string} title
 * @param {string} value
 * @param {string | null} note
 */
function tile(title, value, note) {
  return element(
    'div',
    { class: 'tile' },
    element('span', { class: 'title' }, title),
    element('strong', {}, value),
    note === null ? null : element('small', {}, note),
  );
}

/**
 * @param {Json} status
 * @param {Look | undefined} look
 */
function tables(status, look) {
  /** @type {import('./figures.js').Figures} */
  const figures = look?.figures ?? new Map();
  return [
    table(
      'Context caches in chats, since the start',
      [{ title: 'Outcome' }, { title: 'Why' }, ...numbers('Chats')],
      (figures.get('preface_cache_lookups_total') ?? []).map(({ labels, value }) => [
        labels.status ?? '',
        labels.reason || '–',
        format.count(value),
      ]),
      'No chat has named a context cache yet.',
    ),
    table(
      'Documents read, since the start',
      [{ title: 'Format' }, { title: 'Outcome' }, ...numbers('Documents')],
      (figures.get('preface_extractions_total') ?? []).map(({ labels, value }) => [
        labels.format ?? '',
        labels.outcome ?? '',
        format.count(value),
      ]),
      'No document has been uploaded yet.',
    ),
    table(
      'Disk and memory',
      [{ title: 'Part' }, ...numbers('Size')],
      [...sizes('disk', status.disk_bytes), ...sizes('memory', status.memory_bytes)],
    ),
  ];
}

/**
 * @param {string} kind
 * @param {Readonly<Record<string, number>>} by
 */
function sizes(kind, by) {
  return Object.entries(by).map(([part, size]) => [`${kind}: ${part}`, format.bytes(size)]);
}
