/**
 * Owns the composition: settings become store, plugins, pools, actors and at last the listening server.
 * It must hold no decision of its own, and close in reverse what it opened, also after a failed start.
 */
import { statusOf } from './admin/status.js';
import { PrefixDoctor } from './chat/prefix-doctor.js';
import { Promotion } from './chat/promotion.js';
import { ChatService, type ChatServiceOptions } from './chat/service.js';
import { standByRoutes } from './http/health.js';
import { metricsRoutes } from './http/metrics.js';
import { OperatorKey } from './http/operator-key.js';
import { type PreparedServer, prepareServer } from './http/server.js';
import { limits } from './limits/index.js';
import { openAccounts } from './main/accounts.js';
import { openBatches } from './main/batches.js';
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
import { openRecords, type Standing } from './main/records.js';
import { openResponses } from './main/responses.js';
import { allRoutes } from './main/routes.js';
import { packageVersion } from './main/version.js';
import type { Config } from './settings/config.js';
import { levelsOf } from './telemetry/history.js';
import { reportText, type TakeReport } from './telemetry/report.js';
import { VectorService } from './vectors/service.js';

export interface Service {
  /** Base URL for SDKs: `http://127.0.0.1:8080/v1`. */
  readonly url: string;
  /** Resolves when this process may not go on: another node has the records. */
  readonly lost: Promise<Error>;
  close(): Promise<void>;
}

/** Told when a node begins to stand by, and how to end it then, whereupon `serve` fails; null: it takes over. */
export type StandsBy = (close: (() => Promise<void>) | null) => void;

/** @throws Error that names what could not be opened and the cure; then nothing stays open. */
export async function serve(
  config: Config,
  log: (line: string) => void,
  take: TakeReport = (told) => void (told.type !== 'request' && log(reportText(told))),
  standsBy: StandsBy = () => {},
): Promise<Service> {
  const context = openContext(config, log, take);
  try {
    const { url, lost } = await open(context, standsBy);
    return { url, lost, close: () => context.opened.close() };
  } catch (cause) {
    await context.opened.close();
    throw cause;
  }
}

/** The order of opening: who works with a part is opened after it. */
async function open(context: Context, standsBy: StandsBy): Promise<Omit<Service, 'close'>> {
  const { config, clock, report, metrics, history, opened } = context;
  const version = packageVersion();
  const { records, standing } = await openRecords(context);
  const instead = standing?.instead;
  const traced = config.traces !== null;
  const { corsOrigins } = config;
  const server = prepareServer({ clock, corsOrigins, report, instead, traced });
  const early = standing === null ? null : await listenEarly(context, server, standing);
  const engines = openEngines(context);
  const counter = openCounter(context);
  const prompts = openPrompts(context, counter);
  const parser = openParser(context);
  const catalog = await openCatalog(context, engines, prompts);
  const review = await openReview(context);
  // Last of what needs no records: a node that stands by is as far as it can be.
  if (standing !== null && early !== null) {
    const leaving = new AbortController();
    standsBy(() => {
      leaving.abort();
      return opened.close();
    });
    await standing.wait(early.port, leaving.signal);
    standsBy(null);
  }
  const { gate, accounts, users, adminKeys } = await openAccounts(context, records);
  const caches = await openCaches(context, { records, gate, catalog, review, parser });
  const extraction = await openExtraction(context);
  const files = await openFiles(context, { records, gate, extraction });
  const kept = await openResponses(context, records, gate);
  const { doctor, chats } = openChats(context, { catalog, caches, parser, review });
  const vectors = new VectorService({ catalog, counter, clock, review });
  const { memory } = server;
  const batchParts = { records, gate, accounts, files, chats, parser, vectors, memory };
  const batches = await openBatches(context, batchParts);

  const watched = {
    ...gauges(context, engines, catalog),
    chats: () => chats.load,
    requests: () => ({ active: server.activeCount, bodyBytesHeld: server.bodyBytesHeld }),
  };
  const look = { version, config, clock, engines, catalog, chats, extraction, metrics };
  const status = statusOf({ ...look, gauges: watched });
  const base = { gate, accounts, users, catalog, engines, caches, parser, files };
  const parts = {
    ...base,
    prompts,
    chats,
    doctor,
    ...kept,
    batches,
    vectors,
    adminKeys,
    version,
    status,
  };
  const routes = allRoutes(context, parts);
  const listening = await (early?.serve(routes) ?? server.listen({ ...addressOf(config), routes }));
  const { drainMs } = config.limits;
  opened.add(listening, (part) => (early === null ? part.close(drainMs) : part.drain(drainMs)));
  metrics.watch(watched);
  history.watch(() => levelsOf(watched));
  standing?.serves();
  return { url: urlOf(config.host, listening.port), lost: standing?.lost ?? NEVER };
}

type ChatParts = Pick<ChatServiceOptions, 'catalog' | 'caches' | 'parser' | 'review'>;

function openChats(context: Context, parts: ChatParts) {
  const { config, clock, newBytes, log } = context;
  const doctor = new PrefixDoctor(clock, log);
  const chats = new ChatService({
    ...parts,
    doctor,
    promotion: new Promotion(parts.caches, clock),
    movesVolatile: config.volatile === 'move',
    clock,
    newBytes,
    report: faultLog(context, 'cache'),
    log,
  });
  return { doctor, chats };
}

/** A node that stands by tells of itself. All else the one answers that serves. */
async function listenEarly(
  { config, log, metrics, opened }: Context,
  server: PreparedServer,
  standing: Standing,
) {
  const operator = new OperatorKey([config.adminKey]);
  const routes = [
    ...standByRoutes(() => standing.isReady),
    ...metricsRoutes(metrics, config.metricsKey, operator),
  ];
  const listening = await server.listen({ ...addressOf(config), routes });
  log(`stand-by: listening on ${urlOf(config.host, listening.port)} until the records are here`);
  // Drained before all other parts are closed: the next node serves while requests are still refused here.
  return opened.add(listening, (part) => part.close(config.limits.drainMs, limits.drainSeenMs));
}

const NEVER = new Promise<Error>(() => {});

function addressOf({ host, port }: Config) {
  return { host, port };
}

function urlOf(host: string, port: number): string {
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}/v1`;
}
