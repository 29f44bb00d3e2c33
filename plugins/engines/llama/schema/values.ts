/**
 * Owns the grammar of a list of constant texts, as the tree of their beginnings.
 * It must never follow each text on its own: the library tries every alternative against every token.
 */
import { sortedTexts } from './keywords.js';
import { codePoint, literal, type Rules } from './rules.js';

export interface ValuesRule {
  readonly rule: string;
  /** The most alternatives that one place of the texts has. */
  readonly width: number;
}

type Characters = readonly string[];

/** A part of the sorted texts that have their first `depth` characters in common. */
interface Part {
  readonly from: number;
  readonly to: number;
  readonly depth: number;
}

/** @param texts at least one. */
export function valuesRule(rules: Rules, texts: readonly string[]): ValuesRule {
  const sorted = sortedTexts(texts).map((text) => [...text]);
  const tree = new Tree(rules, sorted);
  const body = tree.body({ from: 0, to: sorted.length, depth: 0 });
  return { rule: rules.rule(body), width: tree.width };
}

class Tree {
  width = 1;

  constructor(
    private readonly rules: Rules,
    private readonly texts: readonly Characters[],
  ) {}

  body({ from, to, depth }: Part): string {
    const first = this.texts[from] ?? [];
    const last = this.texts[to - 1] ?? [];
    let common = depth;
    while (common < first.length && first[common] === last[common]) common++;
    this.rules.cost.spend(1 + common - depth);
    const head = common > depth ? literal(first.slice(depth, common).join('')) : '';
    if (to - from === 1) return head;
    return `${head} ${this.#branches({ from, to, depth: common })}`;
  }

  /** Characters with the same rest are one class. */
  #branches(part: Part): string {
    const { depth } = part;
    const ends = this.texts[part.from]?.length === depth;
    const byRest = new Map<string, string[]>();
    for (let from = part.from + (ends ? 1 : 0), to = from; from < part.to; from = to) {
      const character = this.texts[from]?.[depth] ?? '';
      while (to < part.to && this.texts[to]?.[depth] === character) to++;
      this.rules.cost.spend(to - from);
      const rest = this.body({ from, to, depth: depth + 1 });
      byRest.set(rest, [...(byRest.get(rest) ?? []), character]);
    }
    const parts = [...byRest].map(([rest, all]) => `[${all.map(codePoint).join('')}] ${rest}`);
    if (ends) parts.push('""');
    this.width = Math.max(this.width, parts.length);
    return this.rules.rule(parts.join(' | '));
  }
}
