/**
 * Owns one schema document: what references in it lead to.
 * It must never fetch anything.
 */
import type { Cost } from './cost.js';
import { escaped, unescaped } from './place.js';
import { isSchema } from './read.js';

export interface Target {
  readonly value: unknown;
  /** JSON pointer from the root. */
  readonly where: string;
}

export class Document {
  /** Anchors and ids → where they are; made when the first one is asked for. */
  #named: Map<string, Target> | null = null;

  constructor(
    readonly root: unknown,
    private readonly cost: Cost,
  ) {}

  /** null where it leads nowhere in this document. */
  resolve(reference: string): Target | null {
    if (reference === '#') return { value: this.root, where: '#' };
    if (reference.startsWith('#/'))
      return this.#pointed({ value: this.root, where: '#' }, reference);
    const named = this.#names();
    const known = named.get(reference) ?? named.get(reference.replace(/#$/, ''));
    if (known !== undefined) return known;
    const at = reference.indexOf('#/');
    const base = at < 0 ? undefined : named.get(reference.slice(0, at));
    return base === undefined ? null : this.#pointed(base, reference.slice(at));
  }

  #pointed(from: Target, pointer: string): Target | null {
    let { value, where } = from;
    for (const part of pointer.split('/').slice(1)) {
      const key = unescaped(part);
      if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return null;
      value = (value as Record<string, unknown>)[key];
      where += `/${escaped(key)}`;
    }
    return { value, where };
  }

  #names(): Map<string, Target> {
    this.#named ??= this.#found(new Map(), this.root, '#', '');
    return this.#named;
  }

  /** Relative ids are known by their last part, which is how they are referred to. */
  #found(
    named: Map<string, Target>,
    value: unknown,
    where: string,
    base: string,
  ): Map<string, Target> {
    this.cost.spend();
    if (typeof value !== 'object' || value === null) return named;
    let own = base;
    if (isSchema(value)) {
      const id = value.$id ?? value.id;
      const target = { value, where };
      if (typeof id === 'string') {
        own = id.replace(/#$/, '');
        for (const name of [id, own, own.split('/').at(-1) ?? '', absolute(own, base)])
          if (name !== '' && !named.has(name)) named.set(name, target);
      }
      for (const anchor of [value.$anchor, value.$dynamicAnchor])
        if (typeof anchor === 'string') {
          named.set(`#${anchor}`, target);
          named.set(`${own}#${anchor}`, target);
        }
    }
    for (const [key, inner] of Object.entries(value))
      this.#found(named, inner, `${where}/${escaped(key)}`, own);
    return named;
  }
}

function absolute(id: string, base: string): string {
  try {
    return new URL(id, base === '' ? undefined : base).href;
  } catch {
    return id;
  }
}
