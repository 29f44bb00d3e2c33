/**
 * Owns the terms as one tree of characters, so that the cost of a scan does not grow with their number.
 * It must never see a text: walking the tree along one is the scan's work.
 */
import { type FoldedCharacter, foldText } from './fold.js';

export class TermNode {
  readonly next = new Map<number, TermNode>();
  /** The rule that is whole here. */
  rule: string | null = null;
}

export class TermTree {
  readonly root = new TermNode();

  /** @returns null, or what is wrong with the term. */
  add(term: string, rule: string, lengthMax: number): string | null {
    const folded = foldText(term.trim());
    if (folded.length === 0) return 'has nothing that could be seen';
    if (folded.length > lengthMax) {
      return `has ${folded.length} characters, at most ${lengthMax} are allowed`;
    }
    this.#insert(folded, rule);
    return null;
  }

  #insert(term: readonly FoldedCharacter[], rule: string): void {
    let node = this.root;
    for (const { code } of term) {
      let next = node.next.get(code);
      if (next === undefined) {
        next = new TermNode();
        node.next.set(code, next);
      }
      node = next;
    }
    node.rule ??= rule;
  }
}
