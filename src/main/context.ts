/**
 * Owns what every part of the service is opened with: settings, clock, chance, log, metrics, and the list of open parts.
 * It must never hold a part that is opened later.
 */
import { type Clock, type NewBytes, systemClock, systemRandom } from '../clock.js';
import type { Config } from '../settings/config.js';
import { Metrics } from '../telemetry/metrics.js';
import { faultText, type Report, type TakeReport } from '../telemetry/report.js';
import { Opened } from './opened.js';

export interface Context {
  readonly config: Config;
  readonly clock: Clock;
  readonly newBytes: NewBytes;
  readonly log: (line: string) => void;
  /** Takes what the log and the metrics are made of. */
  readonly report: TakeReport;
  readonly metrics: Metrics;
  readonly opened: Opened;
}

export function openContext(config: Config, log: Context['log'], take: TakeReport): Context {
  const opened = new Opened();
  const metrics = opened.add(new Metrics(), (part) => part.close());
  const report = (told: Report) => {
    metrics.take(told);
    take(told);
  };
  const [clock, newBytes] = [systemClock, systemRandom];
  return { config, clock, newBytes, log, report, metrics, opened };
}

/** Logs the failures that no request waits for. @param area the part they come from. */
export function faultLog({ log }: Context, area: string): (fault: unknown) => void {
  return (fault) => log(`${area}: ${faultText(fault)}`);
}
