/**
 * Owns the check that memory is flat: samples of all processes of a server over time, and a straight line through them.
 * It must never report noise as a slope: each slope has its uncertainty beside it.
 */
import { memoryMegabytes } from './processes.js';
import type { Server } from './servers.js';

const SAMPLE_MS = 1_000;

export interface Slope {
  readonly mbPerMin: number;
  /** Standard error of the slope. */
  readonly uncertainty: number;
  readonly firstMb: number;
  readonly lastMb: number;
  readonly samples: number;
}

type Sample = readonly [minutes: number, megabytes: number];

export class MemorySamples {
  readonly #samples: Sample[] = [];
  readonly #timer: NodeJS.Timeout;
  readonly #startMs = performance.now();

  constructor(readonly server: Server) {
    this.#timer = setInterval(() => this.#take(), SAMPLE_MS);
  }

  end(): void {
    clearInterval(this.#timer);
  }

  /** The slope of the samples after the warm-up. */
  slope(warmUpS: number): Slope {
    return slopeOf(this.#samples.filter(([minutes]) => minutes * 60 >= warmUpS));
  }

  #take(): void {
    try {
      const minutes = (performance.now() - this.#startMs) / 60_000;
      this.#samples.push([minutes, memoryMegabytes(this.server.tree())]);
    } catch {
      // A process ended during the measurement; the next sample follows soon.
    }
  }
}

/** The line of least squares. */
export function slopeOf(samples: readonly Sample[]): Slope {
  const mean = (values: readonly number[]) =>
    values.reduce((sum, value) => sum + value, 0) / values.length;
  const middleX = mean(samples.map(([x]) => x));
  const middleY = mean(samples.map(([, y]) => y));
  const squares = samples.reduce((sum, [x]) => sum + (x - middleX) ** 2, 0);
  const products = samples.reduce((sum, [x, y]) => sum + (x - middleX) * (y - middleY), 0);
  const mbPerMin = products / squares;
  const rest = samples.reduce(
    (sum, [x, y]) => sum + (y - middleY - mbPerMin * (x - middleX)) ** 2,
    0,
  );
  return {
    mbPerMin,
    uncertainty: Math.sqrt(rest / Math.max(1, samples.length - 2) / squares),
    firstMb: samples[0]?.[1] ?? Number.NaN,
    lastMb: samples.at(-1)?.[1] ?? Number.NaN,
    samples: samples.length,
  };
}
