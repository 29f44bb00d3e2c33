/**
 * Owns the text of a chart: its titles, and its numbers as a table with a row for each series.
 * It must never read the workbook that the chart was drawn from.
 */
import { type MarkupHandler, readXml } from '../markup/walk.js';
import { displayed } from './sheetjs.js';

/** Parts of a series: its name, what its numbers belong to, and the numbers. */
const parts = { tx: 'name', cat: 'labels', xVal: 'labels', val: 'values', yVal: 'values' } as const;
type Part = (typeof parts)[keyof typeof parts];

interface Series {
  readonly name: string[];
  readonly labels: string[];
  readonly values: string[];
}

/** Lines; rows with tabs between their cells. */
export function readChart(bytes: Uint8Array, depthMax: number): string[] {
  const chart = new ChartReader();
  readXml(bytes, chart, depthMax);
  return chart.lines();
}

class ChartReader implements MarkupHandler {
  readonly #titles: string[] = [];
  readonly #series: Series[] = [];
  #part: Part | null = null;
  #inSeries = false;
  #text: string | null = null;

  open(name: string): void {
    if (name === 'ser') {
      this.#inSeries = true;
      this.#series.push({ name: [], labels: [], values: [] });
    } else if (this.#inSeries && name in parts) this.#part = parts[name as keyof typeof parts];
    else if (name === 'v' || name === 't') this.#text = '';
    else if (name === 'p' && !this.#inSeries) this.#titles.push('');
  }

  text(text: string): void {
    if (this.#text !== null) this.#text += text;
  }

  close(name: string): void {
    if (name === 'ser') this.#inSeries = false;
    else if (this.#inSeries && name in parts) this.#part = null;
    else if (name === 'v' || name === 't') this.#put();
  }

  #put(): void {
    const text = (this.#text ?? '').replace(/\s+/g, ' ');
    this.#text = null;
    const series = this.#series.at(-1);
    if (this.#inSeries) {
      if (this.#part !== null) series?.[this.#part].push(shown(text.trim()));
    } else if (this.#titles.length > 0) this.#titles[this.#titles.length - 1] += text;
  }

  lines(): string[] {
    const labels = this.#series.find((series) => series.labels.length > 0)?.labels ?? [];
    return [
      ...this.#titles.map((title) => title.trim()),
      labels.length === 0 ? '' : `\t${labels.join('\t')}`,
      ...this.#series.map(({ name, values }) => [name.join(' '), ...values].join('\t')),
    ].filter((line) => line.trim() !== '');
  }
}

/** A workbook keeps a number with digits that its cells do not show. */
function shown(text: string): string {
  const value = Number(text);
  return text === '' || !Number.isFinite(value) ? text : displayed(value, 0, false);
}
