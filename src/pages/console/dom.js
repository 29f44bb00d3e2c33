/**
 * Owns the making of what is on the page.
 * It must never take markup: names of files and users are whatever somebody sent, and stay text here.
 */

/** @typedef {string | number | Node | null} Child */

/**
 * @param {string} tag
 * @param {Readonly<Record<string, string | number | boolean | ((event: Event) => void)>>} [properties] attributes;
 *   functions are listeners, `true` is an attribute without a value, `false` none
 * @param {...Child} children
 * @returns {HTMLElement}
 */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === 'function') made.addEventListener(name, value);
    else if (value === true) made.setAttribute(name, '');
    else if (value !== false) made.setAttribute(name, String(value));
  }
  made.append(...shown(children));
  return made;
}

/** @param {readonly Child[]} children */
function shown(children) {
  return children.flatMap((child) =>
    child === null ? [] : [typeof child === 'number' ? String(child) : child],
  );
}

/** @param {string} id */
export function byId(id) {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no #${id}`);
  return found;
}

/**
 * @typedef {object} Column
 * @property {string} title
 * @property {boolean} [number] aligned by its digits
 */

/**
 * @param {string} caption
 * @param {readonly Column[]} columns
 * @param {readonly (readonly Child[])[]} rows one cell a column
 */
export function table(caption, columns, rows) {
  const heads = columns.map(({ title, number }) =>
    element('th', { scope: 'col', class: number ? 'number' : '' }, title),
  );
  const body = rows.map((cells) =>
    element(
      'tr',
      {},
      ...cells.map((cell, i) => {
        const { title = '', number } = columns[i] ?? {};
        // On a narrow screen a row is a card, and the title stands beside each value.
        return element('td', { 'data-title': title, class: number ? 'number' : '' }, cell);
      }),
    ),
  );
  if (body.length === 0) {
    body.push(element('tr', {}, element('td', { colspan: columns.length }, 'none')));
  }
  return element(
    'table',
    {},
    element('caption', {}, caption),
    element('thead', {}, element('tr', {}, ...heads)),
    element('tbody', {}, ...body),
  );
}

const SVG = 'http://www.w3.org/2000/svg';
const WIDTH = 120;
const HEIGHT = 28;

/**
 * A line over time, the newest at the right.
 * @param {readonly number[]} values
 * @param {string} label what it shows
 */
export function sparkline(values, label) {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-label', label);
  const most = Math.max(...values, Number.MIN_VALUE);
  const step = WIDTH / Math.max(values.length - 1, 1);
  const points = values.map((value, i) => {
    const y = HEIGHT - 2 - (value / most) * (HEIGHT - 4);
    return `${(i * step).toFixed(1)},${y.toFixed(1)}`;
  });
  const line = document.createElementNS(SVG, 'polyline');
  line.setAttribute('points', points.join(' '));
  svg.append(line);
  return svg;
}
