/**
 * Owns the view of the running service: rates, times, queues, workers, disk.
 * It must never ask more often than it shows.
 */
import { byId, element, sparkline, table } from './dom.js';
import { parseFigures, quantile, sum } from './figures.js';
import * as format from './format.js';

const EVERY_MS = 2000;
/** Two minutes. */
const LOOKS_MAX = 60;
/** Ten seconds. */
const AVERAGED = 5;
const FIRST_CONTENT = 'preface_chat_first_content_seconds';

/** @typedef {{ readonly atMs: number, readonly figures: import('./figures.js').Figures }} Look */

export class Overview {
  /** @param {import('./api.js').Api} api */
  constructor(api) {
    this.api = api;
    /** @type {Look[]} */
    this.looks = [];
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
  }

  async show() {
    clearTimeout(this.timer);
    const [status, text] = await Promise.all([
      this.api.get('/admin/v1/status'),
      this.api.text('/metrics'),
    ]);
    this.looks.push({ atMs: performance.now(), figures: parseFigures(text) });
    if (this.looks.length > LOOKS_MAX) this.looks.shift();
    byId('version').textContent = status.version;
    byId('tiles').replaceChildren(...this.tiles(status));
    byId('overview-tables').replaceChildren(...tables(status, this.looks.at(-1)));
  }

  /** @param {(fault: unknown) => void} failed */
  follow(failed) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.show().then(() => this.follow(failed), failed);
    }, EVERY_MS);
  }

  leave() {
    clearTimeout(this.timer);
  }

  /** @param {import('./api.js').Json} status */
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
        `${restarts(status)} workers replaced`,
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

/** @param {import('./api.js').Json} status */
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

/** @param {import('./api.js').Json[]} refused */
function refusedTable(refused) {
  return table(
    'Models that are not offered',
    [{ title: 'Model' }, { title: 'Why' }],
    refused.map(({ id, reason }) => [id, reason]),
  );
}

/**
 * @param {import('./api.js').Json} status
 * @param {Look | undefined} look
 */
function tables(status, look) {
  /** @type {import('./figures.js').Figures} */
  const figures = look?.figures ?? new Map();
  return [
    table(
      'Models and their queues',
      [
        { title: 'Model' },
        ...numbers('Window', 'Slots', 'Waiting', 'Tokens waiting'),
        { title: 'Exact' },
      ],
      status.models.map((/** @type {import('./api.js').Json} */ model) => [
        model.id,
        ...[model.window, model.slots, model.waiting, model.waiting_tokens].map(format.count),
        model.exact ?? '–',
      ]),
    ),
    ...(status.refused_models.length === 0 ? [] : [refusedTable(status.refused_models)]),
    table(
      'Workers',
      [{ title: 'Engine' }, { title: 'State' }, ...numbers('Process', 'Memory')],
      status.workers.map((/** @type {import('./api.js').Json} */ worker) => [
        worker.engine,
        worker.state,
        worker.pid ?? '–',
        format.bytes(worker.memory_bytes),
      ]),
    ),
    table(
      'Context caches in chats',
      [{ title: 'Outcome' }, { title: 'Why' }, ...numbers('Chats')],
      (figures.get('preface_cache_lookups_total') ?? []).map(({ labels, value }) => [
        labels.status ?? '',
        labels.reason || '–',
        format.count(value),
      ]),
    ),
    table(
      'Extraction',
      [{ title: 'Format' }, { title: 'Outcome' }, ...numbers('Documents')],
      (figures.get('preface_extractions_total') ?? []).map(({ labels, value }) => [
        labels.format ?? '',
        labels.outcome ?? '',
        format.count(value),
      ]),
    ),
    table(
      'Disk and memory',
      [{ title: 'Part' }, ...numbers('Size')],
      [...sizes('disk', status.disk_bytes), ...sizes('memory', status.memory_bytes)],
    ),
  ];
}

/** @param {...string} titles */
function numbers(...titles) {
  return titles.map((title) => ({ title, number: true }));
}

/**
 * @param {string} kind
 * @param {Readonly<Record<string, number>>} by
 */
function sizes(kind, by) {
  return Object.entries(by).map(([part, size]) => [`${kind}: ${part}`, format.bytes(size)]);
}
