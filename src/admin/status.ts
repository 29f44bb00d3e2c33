/**
 * Owns the status of the running service for its operator: workers, queues, slots, disk and memory.
 * It must never read a user's data.
 */
import type { Catalog } from '../chat/catalog.js';
import type { GenerationLoad } from '../chat/generation.js';
import { type Clock, unixS } from '../clock.js';
import { limits } from '../limits/index.js';
import type { ExtractionPool } from '../pool/extraction.js';
import type { Host } from '../pool/host.js';
import type { WireServiceStatus } from '../protocol/admin-status.js';
import { pluginName } from '../settings/built-in-plugins.js';
import type { Config } from '../settings/config.js';
import { residentBytes } from '../telemetry/figures.js';
import type { Gauges, Metrics } from '../telemetry/metrics.js';

export interface StatusParts {
  readonly version: string;
  readonly config: Config;
  readonly clock: Clock;
  readonly engines: ReadonlyMap<string, Host>;
  readonly catalog: Catalog;
  readonly load: GenerationLoad;
  readonly extraction: Pick<ExtractionPool, 'load'>;
  readonly metrics: Pick<Metrics, 'workersEnded'>;
  readonly gauges: Pick<Gauges, 'diskBytes' | 'memoryBytes' | 'requests'>;
}

export function statusOf(parts: StatusParts): () => Promise<WireServiceStatus> {
  const { version, config, clock, load, extraction, metrics, gauges } = parts;
  const startedS = unixS(clock);
  return async () => {
    const { active, bodyBytesHeld } = gauges.requests();
    return {
      object: 'service',
      version,
      started_at: startedS,
      uptime_seconds: Math.max(0, unixS(clock) - startedS),
      requests: { active, body_bytes_held: bodyBytesHeld },
      chats: { ...load, waiting_max: config.limits.inferQueue },
      extractions: {
        ...extraction.load,
        waiting_max: limits.extractionQueueMax,
        processes: config.extractProcesses,
      },
      workers: await workers(parts),
      worker_restarts: metrics.workersEnded(),
      models: models(parts),
      refused_models: [...parts.catalog.refused],
      disk_bytes: await gauges.diskBytes(),
      memory_bytes: await gauges.memoryBytes(),
    };
  };
}

function workers({ engines }: StatusParts): Promise<WireServiceStatus['workers']> {
  const looks = [...engines].map(async ([module, { place, pid }]) => ({
    kind: 'inference' as const,
    engine: pluginName(module),
    state: place === null ? ('restarting' as const) : ('running' as const),
    pid: pid ?? null,
    memory_bytes: await residentBytes(pid),
  }));
  return Promise.all(looks);
}

function models({ catalog }: StatusParts): WireServiceStatus['models'] {
  return catalog.models.map(({ id, family, window, engine, inference, queue }) => ({
    id,
    family,
    window,
    slots: engine.slots,
    waiting: queue.waiting.count,
    waiting_tokens: queue.waiting.work,
    exact: inference.exact?.(id) ?? null,
  }));
}
