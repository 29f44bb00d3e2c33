/**
 * Owns the check that memory is flat: samples of all processes of a server over time, and a straight line through them.
 * It must never report noise as a slope: each slope has its uncertainty beside it.
 *
 * Between two collections of garbage a heap fills, and the collector changes its size by its own measure, at a low rate
 * over minutes. A leak is what collections leave: so the line goes through the least memory of each part of the time. What is
 * left of such waves makes neighbours alike, and the line is as uncertain as fewer samples that are not would make it.
 */
import { memoryMegabytes } from './processes.js';
import type { Server } from './servers.js';

const SAMPLE_MS = 1_000;
const PARTS = 30;

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
    return slopeOf(floorsOf(this.#samples.filter(([minutes]) => minutes * 60 >= warmUpS)));
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

/** The least of each part of the time. */
export function floorsOf(samples: readonly Sample[]): readonly Sample[] {
  const length = Math.max(1, Math.ceil(samples.length / PARTS));
  const floors: Sample[] = [];
  for (let at = 0; at < samples.length; at += length) {
    const part = samples.slice(at, at + length);
    floors.push(part.reduce((least, sample) => (sample[1] < least[1] ? sample : least)));
  }
  return floors;
}

/** The line of least squares. Its uncertainty is that of so many samples as are independent of each other. */
export function slopeOf(samples: readonly Sample[]): Slope {
  const mean = (values: readonly number[]) =>
    values.reduce((sum, value) => sum + value, 0) / values.length;
  const middleX = mean(samples.map(([x]) => x));
  const middleY = mean(samples.map(([, y]) => y));
  const squares = samples.reduce((sum, [x]) => sum + (x - middleX) ** 2, 0);
  const products = samples.reduce((sum, [x, y]) => sum + (x - middleX) * (y - middleY), 0);
  const mbPerMin = products / squares;
  const rests = samples.map(([x, y]) => y - middleY - mbPerMin * (x - middleX));
  const rest = rests.reduce((sum, each) => sum + each ** 2, 0);
  return {
    mbPerMin,
    uncertainty: alike(rests) * Math.sqrt(rest / Math.max(1, samples.length - 2) / squares),
    firstMb: samples[0]?.[1] ?? Number.NaN,
    lastMb: samples.at(-1)?.[1] ?? Number.NaN,
    samples: samples.length,
  };
}

/** How much neighbours that are alike add to the uncertainty: by the correlation of each with the next. */
function alike(rests: readonly number[]): number {
  const products = rests.reduce((sum, each, at) => sum + each * (rests[at + 1] ?? 0), 0);
  const squares = rests.reduce((sum, each) => sum + each ** 2, 0);
  const correlation = squares === 0 ? 0 : Math.min(ALIKE_MAX, Math.max(0, products / squares));
  return Math.sqrt((1 + correlation) / (1 - correlation));
}

const ALIKE_MAX = 0.98;
