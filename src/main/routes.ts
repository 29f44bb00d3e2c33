/**
 * Owns the list of all routes, each group with the parts it answers from.
 * It must never hold a handler of its own.
 */

import type { Caches } from '../caches/caches.js';
import type { Catalog } from '../chat/catalog.js';
import { EstimateService } from '../chat/estimate.js';
import type { PromptLibrary } from '../chat/prompt-library.js';
import type { ChatService } from '../chat/service.js';
import { unixS } from '../clock.js';
import type { Files } from '../files/files.js';
import { accountRoutes } from '../http/account.js';
import { adminRoutes } from '../http/admin/routes.js';
import { cacheRoutes } from '../http/caches.js';
import { chatRoutes } from '../http/chat.js';
import { estimateRoutes } from '../http/estimate.js';
import { fileRoutes } from '../http/files.js';
import { type EngineHealth, openRoutes } from '../http/health.js';
import { metricsRoutes } from '../http/metrics.js';
import { modelRoutes } from '../http/models.js';
import { consoleRoutes, docsRoutes } from '../http/pages.js';
import type { Route } from '../http/router.js';
import { tagRoutes } from '../http/tags.js';
import type { Parser } from '../parsing/parser.js';
import type { Host } from '../pool/host.js';
import type { WireServiceStatus } from '../protocol/admin-status.js';
import { resources } from '../protocol/chat-api.js';
import { openApiDocument } from '../protocol/openapi.js';
import type { OpenAccounts } from './accounts.js';
import type { Context } from './context.js';

export interface RouteParts extends OpenAccounts {
  readonly catalog: Catalog;
  readonly engines: ReadonlyMap<string, Host>;
  readonly caches: Caches;
  readonly parser: Parser;
  readonly files: Files;
  readonly prompts: PromptLibrary;
  readonly chats: ChatService;
  readonly version: string;
  readonly status: () => Promise<WireServiceStatus>;
}

export function allRoutes(context: Context, parts: RouteParts): Route[] {
  const { config, clock, metrics } = context;
  const { gate, catalog, files, chats, engines } = parts;
  const document = documentOf(parts);
  return [
    ...chatRoutes(gate, chats, { clock, keepAliveMs: config.limits.keepAliveMs }),
    ...estimateRoutes(gate, parts.parser, estimatesOf(parts)),
    ...cacheRoutes(gate, parts),
    ...tagRoutes(gate, parts),
    ...fileRoutes(gate, files),
    ...modelRoutes(gate, catalog, unixS(clock)),
    ...accountRoutes(gate, clock),
    ...metricsRoutes(metrics, { metrics: config.metricsKey, admin: config.adminKey }),
    ...openRoutes(document, () => healthOf([...engines.values()])),
    ...docsRoutes(document),
    ...(config.adminKey === null ? [] : consoleRoutes()),
    ...adminRoutes(config.adminKey, { ...parts, kept: keptBy(parts), clock }),
  ];
}

/** What counts against the bounds of an account. */
function keptBy({ files, caches }: RouteParts) {
  return async (user: string) => {
    const { count, bytes } = await files.held(user);
    return { files: count, file_bytes: bytes, tags: await caches.tags.held(user) };
  };
}

function healthOf(hosts: readonly Host[]): EngineHealth {
  return { answering: hosts.filter(({ answers }) => answers).length, all: hosts.length };
}

function estimatesOf({ prompts, catalog }: RouteParts): EstimateService {
  return new EstimateService(
    (id) => prompts.forModel(id),
    (policy, id) => catalog.isOpen(policy, id),
  );
}

function documentOf({ catalog, version }: RouteParts): ReturnType<typeof openApiDocument> {
  const ids = catalog.list().map(({ id }) => id);
  const families = new Set(catalog.models.map(({ family }) => family));
  return openApiDocument(version, resources(ids, [...families]));
}
