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
  /** A file of this machine that is copied, in place of the sources of the settings. */
  readonly from: string | null;
  /** As a person gave the file that is to be added: another one under its name is refused, where it is taken otherwise. */
  readonly adds: string | null;
  /** Looks into what came, before it gets its name. @returns what is wrong with it, or null. */
  readonly verify: ((path: string) => Promise<string | null>) | null;
}

/** What a server says of the file before it sends it. */
export interface Announced {
  bytes: number | null;
  sha256: string | null;
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
  readonly announced: Announced;
}
