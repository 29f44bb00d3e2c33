/**
 * Owns formulas: the elements of one as a small tree, and that tree as LaTeX, from MathML and from Office alike.
 * It must never be larger than the markup it comes from, nor fail: an element that it does not know is its content.
 */
import { attribute, type MarkupHandler } from './walk.js';

type Attributes = Readonly<Record<string, string>>;

export interface FormulaNode {
  readonly name: string;
  readonly attributes: Attributes;
  readonly children: (FormulaNode | string)[];
}

/** Collects what lies within a formula. */
export class FormulaReader implements MarkupHandler {
  readonly root: FormulaNode;
  readonly #open: FormulaNode[];

  constructor(name: string, attributes: Attributes) {
    this.root = { name, attributes, children: [] };
    this.#open = [this.root];
  }

  open(name: string, attributes: Attributes): void {
    const node: FormulaNode = { name, attributes, children: [] };
    this.#open.at(-1)?.children.push(node);
    this.#open.push(node);
  }

  text(text: string): void {
    this.#open.at(-1)?.children.push(text);
  }

  /** @returns true when the formula itself ends. */
  close(): boolean {
    this.#open.pop();
    return this.#open.length === 0;
  }

  /** `$\frac{1}{2}$`; empty for a formula without anything. */
  latex(): string {
    // Some pages have the formula as an attribute alone.
    const spoken = this.root.attributes.alttext ?? '';
    const text = tidy(this.#written() ?? contentOf(this.root)) || tidy(spoken);
    return text === '' ? '' : `$${text}$`;
  }

  /** What the author wrote, where the formula brings it. */
  #written(): string | null {
    const find = (node: FormulaNode): string | null => {
      for (const child of nodesOf(node)) {
        const isTex = /^(?:application\/x-tex|latex|tex)$/i.test(child.attributes.encoding ?? '');
        const found = child.name === 'annotation' && isTex ? plain(child) : find(child);
        if (found !== null && found.trim() !== '') return found;
      }
      return null;
    };
    return find(this.root);
  }
}

function tidy(text: string): string {
  return text
    .replace(/\s+/g, ' ')
    .replace(/ (?=[}^_,)])/g, '')
    .replace(/^ ?([+−-]) /, '$1')
    .trim();
}

function nodesOf(node: FormulaNode): FormulaNode[] {
  return node.children.filter((child): child is FormulaNode => typeof child !== 'string');
}

function plain(node: FormulaNode): string {
  return node.children.map((child) => (typeof child === 'string' ? child : plain(child))).join('');
}

function latexOf(node: FormulaNode | undefined): string {
  if (node === undefined) return '';
  const write = Object.hasOwn(writers, node.name) ? writers[node.name] : undefined;
  return write === undefined ? contentOf(node) : write(node);
}

function contentOf(node: FormulaNode): string {
  const parts = node.children.map((child) => (typeof child === 'string' ? child : latexOf(child)));
  return parts.join('');
}

// ------------------------------------------------------------------- writing

type Write = (node: FormulaNode) => string;

const group = (text: string) => `{${tidy(text)}}`;
/** The child at this place. */
const at = (node: FormulaNode, place: number) => latexOf(nodesOf(node)[place]);
/** The child of this name. */
const of = (node: FormulaNode, name: string) =>
  latexOf(nodesOf(node).find((child) => child.name === name));
const property = (node: FormulaNode, element: string, name: string): string | undefined => {
  const properties = nodesOf(node).find((child) => child.name === element);
  const found = properties && nodesOf(properties).find((child) => child.name === name);
  return found && (attribute(found.attributes, 'val') ?? '');
};

/** A base with more than one sign needs braces before an exponent. */
const base = (text: string) =>
  /^(?:.|\d+|\\[a-zA-Z]+|\{.*\})$/su.test(text.trim()) ? text.trim() : group(text);
const script = (text: string, sub: string, sup: string) =>
  base(text) +
  (sub.trim() === '' ? '' : `_${group(sub)}`) +
  (sup.trim() === '' ? '' : `^${group(sup)}`);

const signs: Readonly<Record<string, string>> = {
  '∑': '\\sum',
  '∏': '\\prod',
  '∫': '\\int',
  '∬': '\\iint',
  '∮': '\\oint',
  '⋃': '\\bigcup',
  '⋂': '\\bigcap',
  '\u0302': '\\hat',
  '^': '\\hat',
  '\u0303': '\\tilde',
  '~': '\\tilde',
  '\u0304': '\\bar',
  '\u0305': '\\overline',
  '¯': '\\bar',
  '‾': '\\overline',
  '\u0307': '\\dot',
  '˙': '\\dot',
  '\u0308': '\\ddot',
  '¨': '\\ddot',
  '\u20d7': '\\vec',
  '→': '\\vec',
  '⏞': '\\overbrace',
  '⏟': '\\underbrace',
};
const accent = (sign: string, text: string): string | null => {
  const name = signs[sign.trim()];
  return name === undefined ? null : `${name}${group(text)}`;
};
const rows = (list: readonly string[]) => `\\begin{matrix} ${list.join(' \\\\ ')} \\end{matrix}`;
const fence = (sign: string) => (sign === '{' || sign === '}' ? `\\${sign}` : sign);
const overUnder = (text: string, under: string, over: string): string => {
  const accented =
    under.trim() === '' ? accent(over, text) : over.trim() === '' ? accent(under, text) : null;
  if (accented !== null) return accented;
  const large = signs[text.trim()] ?? text.trim();
  return /^\\[a-z]+$/.test(large) || /^(?:lim|max|min|sup|inf)$/.test(large)
    ? script(/^[a-z]/.test(large) ? `\\${large}` : large, under, over)
    : (over.trim() === '' ? '' : `\\overset${group(over)}`) +
        (under.trim() === '' ? group(text) : `{\\underset${group(under)}${group(text)}}`);
};

const mathml: Readonly<Record<string, Write>> = {
  mi: word,
  mn: (node) => plain(node).trim(),
  mo: (node) => operator(plain(node).trim()),
  mtext: (node) => (plain(node).trim() === '' ? ' ' : `\\text{${plain(node)}}`),
  ms: (node) => `\\text{${plain(node)}}`,
  mspace: () => ' ',
  mphantom: () => '',
  annotation: () => '',
  'annotation-xml': () => '',
  mfrac: (node) => `\\frac${group(at(node, 0))}${group(at(node, 1))}`,
  msqrt: (node) => `\\sqrt${group(contentOf(node))}`,
  mroot: (node) => `\\sqrt[${tidy(at(node, 1))}]${group(at(node, 0))}`,
  msup: (node) => script(at(node, 0), '', at(node, 1)),
  msub: (node) => script(at(node, 0), at(node, 1), ''),
  msubsup: (node) => script(at(node, 0), at(node, 1), at(node, 2)),
  mover: (node) => overUnder(at(node, 0), '', at(node, 1)),
  munder: (node) => overUnder(at(node, 0), at(node, 1), ''),
  munderover: (node) => overUnder(at(node, 0), at(node, 1), at(node, 2)),
  mtable: (node) =>
    rows(
      nodesOf(node).map((row) =>
        nodesOf(row)
          .map((cell) => tidy(latexOf(cell)))
          .join(' & '),
      ),
    ),
  mfenced: (node) => {
    const { open = '(', close = ')', separators = ',' } = node.attributes;
    const inside = nodesOf(node)
      .map((child) => latexOf(child))
      .join(separators.trim().charAt(0));
    return fence(open) + inside + fence(close);
  },
};

const office: Readonly<Record<string, Write>> = {
  rPr: () => '',
  ctrlPr: () => '',
  del: () => '',
  t: (node) => plain(node),
  f: (node) =>
    property(node, 'fPr', 'type') === 'lin'
      ? `${of(node, 'num')}/${of(node, 'den')}`
      : `\\frac${group(of(node, 'num'))}${group(of(node, 'den'))}`,
  sSup: (node) => script(of(node, 'e'), '', of(node, 'sup')),
  sSub: (node) => script(of(node, 'e'), of(node, 'sub'), ''),
  sSubSup: (node) => script(of(node, 'e'), of(node, 'sub'), of(node, 'sup')),
  sPre: (node) =>
    `{}${script('', of(node, 'sub'), of(node, 'sup')).replace(/^\{\}/, '')}${group(of(node, 'e'))}`,
  rad: (node) => {
    const degree = tidy(of(node, 'deg'));
    return `\\sqrt${degree === '' ? '' : `[${degree}]`}${group(of(node, 'e'))}`;
  },
  nary: (node) => {
    const sign = property(node, 'naryPr', 'chr') ?? '∫';
    return `${script(signs[sign] ?? sign, of(node, 'sub'), of(node, 'sup'))} ${of(node, 'e')}`;
  },
  d: (node) => {
    const begin = property(node, 'dPr', 'begChr') ?? '(';
    const end = property(node, 'dPr', 'endChr') ?? ')';
    const between = property(node, 'dPr', 'sepChr') ?? '|';
    const inside = nodesOf(node)
      .filter(({ name }) => name === 'e')
      .map((child) => latexOf(child));
    return fence(begin) + inside.join(between) + fence(end);
  },
  func: (node) => `${functionName(tidy(of(node, 'fName')))} ${of(node, 'e')}`,
  limLow: (node) => overUnder(of(node, 'e'), of(node, 'lim'), ''),
  limUpp: (node) => overUnder(of(node, 'e'), '', of(node, 'lim')),
  acc: (node) => accent(property(node, 'accPr', 'chr') ?? '\u0302', of(node, 'e')) ?? of(node, 'e'),
  bar: (node) =>
    `${property(node, 'barPr', 'pos') === 'top' ? '\\overline' : '\\underline'}${group(of(node, 'e'))}`,
  groupChr: (node) =>
    accent(property(node, 'groupChrPr', 'chr') ?? '⏟', of(node, 'e')) ?? of(node, 'e'),
  eqArr: (node) =>
    rows(
      nodesOf(node)
        .filter(({ name }) => name === 'e')
        .map((row) => tidy(latexOf(row))),
    ),
  m: (node) =>
    rows(
      nodesOf(node)
        .filter(({ name }) => name === 'mr')
        .map((row) =>
          nodesOf(row)
            .map((cell) => tidy(latexOf(cell)))
            .join(' & '),
        ),
    ),
  phant: () => '',
};

const writers: Readonly<Record<string, Write>> = { ...mathml, ...office };

/** A name of more than one letter is no product of letters. */
function word(node: FormulaNode): string {
  const text = plain(node).trim();
  return /^\p{L}{2,}$/u.test(text) ? functionName(text) : text;
}

const functions = new Set(
  'arccos arcsin arctan cos cosh cot csc deg det dim exp gcd inf ker lim ln log max min sec sin sinh sup tan tanh'.split(
    ' ',
  ),
);

function functionName(text: string): string {
  if (functions.has(text)) return `\\${text} `;
  return /^\p{L}{2,}$/u.test(text) ? `\\mathrm{${text}}` : text;
}

/** Invisible products and applications have no sign. */
function operator(text: string): string {
  if (/^[\u2061-\u2064]*$/.test(text)) return '';
  if (text === '{' || text === '}') return `\\${text}`;
  const large = signs[text];
  if (large !== undefined && /^[∑∏∫∬∮⋃⋂]$/u.test(text)) return `${large} `;
  return /^[=<>≤≥≠≈→∈+−-]$/u.test(text) ? ` ${text} ` : text;
}
