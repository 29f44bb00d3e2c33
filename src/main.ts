/**
 * Owns the composition: settings become store, plugins, pools, actors and at last the listening server.
 * It must hold no decision of its own, and close in reverse what it opened, also after a failed start.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Accounts } from './accounts/accounts.js';
import { openSharedFile } from './admin/open-accounts.js';
import { statusOf } from './admin/status.js';
import { UserBook } from './admin/user-book.js';
import { Caches } from './caches/caches.js';
import type { Catalog } from './chat/catalog.js';
import { EstimateService } from './chat/estimate.js';
import { EnginePrefiller } from './chat/prefiller.js';
import type { PromptLibrary } from './chat/prompt-library.js';
import { cacheReview, type Review } from './chat/review.js';
import { ChatService } from './chat/service.js';
import { systemClock, systemRandom, unixS } from './clock.js';
import { Files } from './files/files.js';
import { accountRoutes } from './http/account.js';
import { adminRoutes } from './http/admin/routes.js';
import { cacheRoutes } from './http/caches.js';
import { chatRoutes } from './http/chat.js';
import { estimateRoutes } from './http/estimate.js';
import { fileRoutes } from './http/files.js';
import { Gate } from './http/gate.js';
import { openRoutes } from './http/health.js';
import { metricsRoutes } from './http/metrics.js';
import { modelRoutes } from './http/models.js';
import { consoleRoutes, docsRoutes } from './http/pages.js';
import type { Route } from './http/router.js';
import { startServer } from './http/server.js';
import { tagRoutes } from './http/tags.js';
import { gauges, openCatalog, openCounter, openEngines, openPrompts } from './main/engines.js';
import { openReview } from './main/open-review.js';
import { Opened } from './main/opened.js';
import { ExtractionPool } from './pool/extraction.js';
import { resources } from './protocol/chat-api.js';
import { openApiDocument } from './protocol/openapi.js';
import { imageSizeOfDataUrl } from './rules/image-tokens.js';
import type { Config } from './settings/config.js';
import { Blobs } from './store/blobs.js';
import { LmdbStore } from './store/lmdb-store.js';
import type { Store } from './store/store.js';
import type { ServiceLog } from './telemetry/log.js';
import { Metrics } from './telemetry/metrics.js';
import { faultText, type Report, reportText, type TakeReport } from './telemetry/report.js';

export interface Service {
  /** Base URL for SDKs: `http://127.0.0.1:8080/v1`. */
  readonly url: string;
  close(): Promise<void>;
}

type Log = (line: string) => void;

/** @throws Error that names what could not be opened and the cure; then nothing stays open. */
export async function serve(
  config: Config,
  log: Log,
  take: TakeReport = (told) => void (told.type !== 'request' && log(reportText(told))),
): Promise<Service> {
  const opened = new Opened();
  try {
    const url = await open(config, log, take, opened);
    return { url, close: () => opened.close() };
  } catch (cause) {
    await opened.close();
    throw cause;
  }
}

async function open(config: Config, log: Log, take: TakeReport, opened: Opened): Promise<string> {
  const metrics = opened.add(new Metrics(), (part) => part.close());
  const report = (told: Report) => {
    metrics.take(told);
    take(told);
  };
  const records = openRecords(config, opened);
  const { gate, accounts, users } = openGate(config, records, log, opened);
  const engines = openEngines(config, log, metrics, opened);
  const counter = openCounter(config, log, metrics, opened);
  const prompts = openPrompts(config, counter);
  const catalog = await openCatalog(config, engines, prompts);
  const review = await openReview(config, log, opened);
  const cacheParts = { config, catalog, records, gate, review };
  const caches = await openCaches(cacheParts, log, opened);
  const extraction = openExtraction(config, { line: log, report }, opened);
  const files = await openFiles({ config, records, gate, extraction }, log, opened);
  const chats = openChats(catalog, caches, review, log);
  const version = packageVersion();
  const watched = {
    ...gauges(config, engines, catalog),
    chats: () => chats.load,
    requests: () => ({ active: server.activeCount, bodyBytesHeld: server.bodyBytesHeld }),
  };
  const look = { version, config, clock: systemClock, engines, catalog, chats, extraction };
  const status = statusOf({ ...look, metrics, gauges: watched });
  const operated = { users, accounts, caches, files, clock: systemClock, status };
  const parts = { config, gate, catalog, caches, files, prompts, metrics, chats, version };
  const server = await startServer({
    host: config.host,
    port: config.port,
    routes: [...routes(parts), ...adminRoutes(config.adminKey, operated)],
    clock: systemClock,
    corsOrigins: config.corsOrigins,
    report,
  });
  opened.add(server, (part) => part.close(config.limits.drainMs));
  metrics.watch(watched);
  const host = config.host.includes(':') ? `[${config.host}]` : config.host;
  return `http://${host}:${server.port}/v1`;
}

interface Parts {
  readonly config: Config;
  readonly records: Store;
  readonly review: Review | null;
  readonly gate: Gate;
  readonly catalog: Catalog;
  readonly caches: Caches;
  readonly files: Files;
  readonly prompts: PromptLibrary;
  readonly metrics: Metrics;
  readonly chats: ChatService;
  readonly version: string;
}

function routes(parts: Omit<Parts, 'records' | 'review'>): Route[] {
  const { config, gate, catalog, caches, files, prompts, metrics, chats, version } = parts;
  const clock = systemClock;
  const estimates = new EstimateService(
    (id) => prompts.forModel(id),
    imageSizeOfDataUrl,
    (policy, id) => catalog.isOpen(policy, id),
  );
  const ids = catalog.list().map(({ id }) => id);
  const families = new Set(catalog.models.map(({ family }) => family));
  const document = openApiDocument(version, resources(ids, [...families]));
  return [
    ...chatRoutes(gate, chats, { clock, keepAliveMs: config.limits.keepAliveMs }),
    ...estimateRoutes(gate, estimates),
    ...cacheRoutes(gate, caches),
    ...tagRoutes(gate, caches),
    ...fileRoutes(gate, files),
    ...modelRoutes(gate, catalog, unixS(clock)),
    ...accountRoutes(gate, clock),
    ...metricsRoutes(metrics, { metrics: config.metricsKey, admin: config.adminKey }),
    ...openRoutes(document),
    ...docsRoutes(document),
    ...(config.adminKey === null ? [] : consoleRoutes()),
  ];
}

// ------------------------------------------------------------------- parts

function openChats(catalog: Catalog, caches: Caches, review: Review | null, log: Log): ChatService {
  const report = (fault: unknown) => log(`cache: ${faultText(fault)}`);
  const clock = systemClock;
  const newBytes = systemRandom;
  return new ChatService({ catalog, caches, clock, newBytes, review, report, log });
}

/** The one file that only this process may have open. */
function openRecords(config: Config, opened: Opened): Store {
  const { dataDir: folder, limits: bounds } = config;
  const bytesMax = bounds.recordsBytes;
  const store = LmdbStore.open({ folder, name: 'records', exclusive: true, bytesMax });
  return opened.add(store, (part) => part.close());
}

function openGate(config: Config, records: Store, log: Log, opened: Opened) {
  // The command line makes and revokes keys, and changes accounts, while the server runs.
  const shared = opened.add(openSharedFile(config), (part) => part.close());
  const report = (fault: unknown) => log(`account: ${faultText(fault)}`);
  const accounts = new Accounts({ store: records, clock: systemClock, report });
  opened.add(accounts, (part) => part.close());
  const recorded = {
    has: (user: string) => accounts.hasRecord(user),
    all: () => accounts.recorded(),
  };
  const { apiKeys } = config;
  const users = new UserBook({ file: shared, apiKeys, clock: systemClock, recorded });
  return { gate: new Gate(shared.keys, accounts, shared.grants), accounts, users };
}

type CacheParts = Pick<Parts, 'config' | 'catalog' | 'records' | 'gate' | 'review'>;

/** Takes up what the last run left before the first request comes. */
async function openCaches(
  { config, catalog, records, gate, review }: CacheParts,
  log: Log,
  opened: Opened,
): Promise<Caches> {
  const { limits: bounds } = config;
  const policyOf = (owner: string) => gate.policies.of(owner);
  const prefiller = new EnginePrefiller(catalog, systemClock, policyOf);
  const caches = new Caches({
    store: records,
    clock: systemClock,
    newBytes: systemRandom,
    report: (fault) => log(`cache: ${faultText(fault)}`),
    prefiller,
    families: catalog.families,
    isOpen: (owner, family) => prefiller.isOpen(owner, family),
    tokensMax: (owner) => policyOf(owner).cachedTokens,
    ...(review === null ? {} : { review: cacheReview(review) }),
    keepMs: bounds.cacheKeepMs,
    quotaMax: { count: bounds.cachesPerOwner, bytes: bounds.cacheBytesPerOwner },
    countTokens: (owner, family, messages, tools) =>
      prefiller.count(owner, family, { messages, tools }),
  });
  opened.add(caches, (part) => part.close());
  await caches.start();
  return caches;
}

function openExtraction(
  config: Config,
  { line: log, report }: ServiceLog,
  opened: Opened,
): ExtractionPool {
  const { extractors, ocrLanguages: languages, extractProcesses: processes } = config;
  const readers = { extractors, languages, processes };
  const extraction = new ExtractionPool({ ...readers, clock: systemClock, log, report });
  return opened.add(extraction, (part) => part.close());
}

/** Takes up the extractions that the last run left before the first request comes. */
async function openFiles(
  {
    config,
    records: store,
    gate,
    extraction,
  }: Pick<Parts, 'config' | 'records' | 'gate'> & { readonly extraction: ExtractionPool },
  log: Log,
  opened: Opened,
): Promise<Files> {
  const clock = systemClock;
  const max = (owner: string) => {
    const { files: count, fileBytes: bytes } = gate.policies.of(owner);
    return { count, bytes };
  };
  const files = new Files({
    store,
    blobs: await Blobs.open(join(config.dataDir, 'files')),
    extraction,
    clock,
    newBytes: systemRandom,
    report: (fault) => log(`file: ${faultText(fault)}`),
    max,
  });
  opened.add(files, (part) => part.close());
  await files.start();
  return files;
}

function packageVersion(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
