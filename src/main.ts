/**
 * Owns the composition: settings become store, plugins, pools, actors and at last the listening server.
 * It must hold no decision of its own, and close in reverse what it opened, also after a failed start.
 */
import { standByRoutes } from './http/health.js';
import { metricsRoutes } from './http/metrics.js';
import { OperatorKey } from './http/operator-key.js';
import type { Route } from './http/router.js';
import { type PreparedServer, prepareServer, type Server } from './http/server.js';
import { limits } from './limits/index.js';
import { type Context, openContext } from './main/context.js';
import { processRoutes } from './main/process-routes.js';
import { openRecords, type Standing } from './main/records.js';
import { openShared } from './main/shared.js';
import { openSlot } from './main/slot.js';
import { Turns } from './main/turns.js';
import { onlySlot } from './rules/slots.js';
import type { Config } from './settings/config.js';
import { reportText, type TakeReport } from './telemetry/report.js';

export interface Service {
  /** Base URL for SDKs: `http://127.0.0.1:8080/v1`. */
  readonly url: string;
  /** Resolves when this process may not go on. */
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
  const { config, clock, report, opened } = context;
  const { records, standing } = await openRecords(context);
  const instead = standing?.instead;
  const traced = config.traces !== null;
  const { corsOrigins } = config;
  const server = prepareServer({ clock, corsOrigins, report, instead, traced });
  if (standing !== null) return await openTurns(context, server, standing, standsBy);
  const shared = await openShared(context, server);
  const own = await openSlot(context, shared, { slot: onlySlot, records, storeId: null });
  const routes = [...processRoutes(context, shared), ...own];
  const listening = await server.listen({ ...addressOf(config), routes });
  opened.add(listening, (part) => part.close(config.limits.drainMs));
  return { url: urlOf(config.host, listening.port), lost: NEVER };
}

/** A node that stands by has all that needs no records. */
async function openTurns(
  context: Context,
  server: PreparedServer,
  standing: Standing,
  standsBy: StandsBy,
): Promise<Omit<Service, 'close'>> {
  const { config, opened } = context;
  const standBy = routesMeanwhile(context, standing);
  const listening = await listenEarly(context, server, standBy);
  const shared = await openShared(context, server);
  const always = processRoutes(context, shared);
  const turns = new Turns({
    context,
    standing,
    listening,
    standBy,
    async openSlot(of, records) {
      const { storeId } = records;
      const own = await openSlot(of, shared, { slot: onlySlot, records, storeId });
      return [...always, ...own];
    },
  });
  opened.add(turns, (part) => part.close());
  standsBy(() => opened.close());
  await turns.begin(() => standsBy(null));
  return { url: urlOf(config.host, listening.port), lost: turns.lost };
}

/** A node that stands by tells of itself. All else the one answers that serves. */
function routesMeanwhile({ config, metrics }: Context, standing: Standing): Route[] {
  const operator = new OperatorKey([config.adminKey]);
  return [
    ...standByRoutes(() => standing.isReady),
    ...metricsRoutes(metrics, config.metricsKey, operator),
  ];
}

async function listenEarly(
  { config, log, opened }: Context,
  server: PreparedServer,
  routes: readonly Route[],
): Promise<Server> {
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
