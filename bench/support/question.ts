/**
 * Owns the types of a question: which sides are compared, and the bound of each line.
 * It must never measure anything itself.
 */

/** Length and number of measurements; a tiny run only proves that the question still works. */
export interface Scale {
  readonly tiny: boolean;
  readonly rounds: number;
  /** Length of one measurement. */
  readonly ms: number;
}

export interface Sample {
  readonly value: number;
  /** Any error makes the run fail. */
  readonly errors: number;
  /** A short text that stands for the answer or result; it must be the same in every round. */
  readonly check: string;
  /** Further figures of the same measurement; each name contains the unit. */
  readonly beside?: Readonly<Record<string, number>>;
}

export interface Side {
  readonly name: string;
  /** For slow sides: the most rounds with a measurement, spread over the run, without a warm-up. */
  readonly roundsMax?: number;
  measure(round: number): Promise<Sample>;
}

/** One row of the table: a side, the floors it is compared with, and its bounds. */
export interface Line {
  readonly label: string;
  readonly subject: string;
  readonly unit: string;
  /** The best of these sides is the floor. Empty: no floor. */
  readonly floors: readonly string[];
  /** What `must` and `goal` bound: the side's own value, or its ratio to the floor. */
  readonly judged: 'value' | 'ratio';
  readonly better: 'more' | 'less';
  readonly must: number | null;
  readonly goal: number | null;
  /** A constant, in the line's unit, that is added to a bound on a ratio. */
  readonly plus?: { readonly must: number; readonly goal: number };
}

/** A figure over a size, for the plot of the question. */
export interface Curves {
  /** Label of the horizontal axis. */
  readonly across: string;
  readonly unit: string;
  readonly series: readonly {
    readonly name: string;
    readonly points: readonly { readonly x: number; readonly side: string }[];
  }[];
}

export interface OpenQuestion {
  readonly sides: readonly Side[];
  readonly lines: readonly Line[];
  readonly curves?: Curves;
  /** What a reader must know, such as what was left out and why. */
  readonly notes: readonly string[];
  close(): Promise<void>;
}

export interface Question {
  /** File name of the results. */
  readonly name: string;
  readonly title: string;
  /** Gives `skipped`, the reason, where this machine cannot answer the question. */
  open(scale: Scale): Promise<OpenQuestion | { readonly skipped: string }>;
}
