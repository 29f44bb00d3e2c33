/**
 * Owns the contract between the core and filters, the plugins of content review.
 * It must hold types only, like the contract it is a part of.
 */
import type { Plugin } from './plugin.js';

export interface FilterOptions {
  /** The file that the settings name beside the filter; null for none. What is in it is the filter's own affair. */
  readonly file: string | null;
}

/** One text of a request, as the model will read it. */
export interface FilterText {
  readonly role: 'system' | 'user' | 'assistant' | 'tool';
  readonly text: string;
}

export type FilterVerdict =
  | { readonly type: 'allowed' }
  /** `rule` is what the operator's log says of it: words of the filter's own, never of the text. */
  | { readonly type: 'rejected'; readonly rule: string };

export type FilterStep =
  /** This many UTF-16 units from the beginning of the text may be shown; it never becomes less. */
  | { readonly type: 'show'; readonly length: number }
  | { readonly type: 'rejected'; readonly rule: string };

/** One generated text on its way to its reader. Calls come one after the other. */
export interface FilterStream {
  /** The text goes on, cut anywhere. What is not shown is held back until a later call says that it may be. */
  push(text: string): FilterStep | Promise<FilterStep>;
  /** Nothing follows: the rest is shown, or rejected. */
  end(): FilterVerdict | Promise<FilterVerdict>;
}

/**
 * Reviews what users send and what models say. It runs in the process that serves: an answer at once must be quick,
 * and whatever takes longer is a promise. One that does not come in time, or rejects, counts as the settings say.
 */
export interface Filter {
  /** All texts of one input, each by itself. `signal`: nobody waits any more. */
  check(texts: readonly FilterText[], signal: AbortSignal): FilterVerdict | Promise<FilterVerdict>;
  /** @param before what the reader has already seen of this text; it was checked as input. */
  open(before: string): FilterStream;
  close(): Promise<void>;
}

export type FilterPlugin = Plugin<'filter', FilterOptions, Filter>;
