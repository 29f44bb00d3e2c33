/**
 * Owns the composition: settings become store, plugins, pools, actors and at last the listening server.
 * It must hold no decision of its own, and close in reverse what it opened, also after a failed start.
 */
import { readFileSync } from 'node:fs';
import { statusOf } from './admin/status.js';
import { ChatService } from './chat/service.js';
import { prepareServer } from './http/server.js';
import { openAccounts, openRecords } from './main/accounts.js';
import { openCaches } from './main/caches.js';
import { type Context, faultLog, openContext } from './main/context.js';
import {
  gauges,
  openCatalog,
  openCounter,
  openEngines,
  openParser,
  openPrompts,
} from './main/engines.js';
import { openExtraction, openFiles } from './main/files.js';
import { openReview } from './main/open-review.js';
import { allRoutes } from './main/routes.js';
import type { Config } from './settings/config.js';
import { reportText, type TakeReport } from './telemetry/report.js';

export interface Service {
  /** Base URL for SDKs: `http://127.0.0.1:8080/v1`. */
  readonly url: string;
  close(): Promise<void>;
}

/** @throws Error that names what could not be opened and the cure; then nothing stays open. */
export async function serve(
  config: Config,
  log: (line: string) => void,
  take: TakeReport = (told) => void (told.type !== 'request' && log(reportText(told))),
): Promise<Service> {
  const context = openContext(config, log, take);
  try {
    const url = await open(context);
    return { url, close: () => context.opened.close() };
  } catch (cause) {
    await context.opened.close();
    throw cause;
  }
}

/** The order of opening: who works with a part is opened after it. */
async function open(context: Context): Promise<string> {
  const { config, clock, newBytes, log, report, metrics, opened } = context;
  const version = packageVersion();
  const records = openRecords(context);
  const { gate, accounts, users } = openAccounts(context, records);
  const engines = openEngines(context);
  const prompts = openPrompts(context, openCounter(context));
  const parser = openParser(context);
  const catalog = await openCatalog(context, engines, prompts);
  const review = await openReview(context);
  const caches = await openCaches(context, { records, gate, catalog, review, parser });
  const extraction = await openExtraction(context);
  const files = await openFiles(context, { records, gate, extraction });
  const chatReport = faultLog(context, 'cache');
  const chats = new ChatService({
    catalog,
    caches,
    parser,
    clock,
    newBytes,
    review,
    report: chatReport,
    log,
  });

  const server = prepareServer({ clock, corsOrigins: config.corsOrigins, report });
  const watched = {
    ...gauges(context, engines, catalog),
    chats: () => chats.load,
    requests: () => ({ active: server.activeCount, bodyBytesHeld: server.bodyBytesHeld }),
  };
  const look = { version, config, clock, engines, catalog, chats, extraction, metrics };
  const status = statusOf({ ...look, gauges: watched });
  const base = { gate, accounts, users, catalog, engines, caches, parser, files, prompts, chats };
  const parts = { ...base, version, status };
  const { host, port } = config;
  const listening = await server.listen({ host, port, routes: allRoutes(context, parts) });
  opened.add(listening, (part) => part.close(config.limits.drainMs));
  metrics.watch(watched);
  return `http://${host.includes(':') ? `[${host}]` : host}:${listening.port}/v1`;
}

function packageVersion(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
