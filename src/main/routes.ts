/**
 * Owns the list of all routes, each group with the parts it answers from.
 * It must never hold a handler of its own.
 */

import { Activity } from '../admin/activity.js';
import { ModelBook } from '../admin/models.js';
import type { Batches } from '../batches/batches.js';
import type { Caches } from '../caches/caches.js';
import type { Catalog } from '../chat/catalog.js';
import { EstimateService } from '../chat/estimate.js';
import type { PrefixDoctor } from '../chat/prefix-doctor.js';
import type { PromptLibrary } from '../chat/prompt-library.js';
import type { ChatService } from '../chat/service.js';
import { unixS } from '../clock.js';
import type { Files } from '../files/files.js';
import { accountRoutes } from '../http/account.js';
import { adminRoutes } from '../http/admin/routes.js';
import { adviceRoutes } from '../http/advice.js';
import { batchRoutes } from '../http/batches.js';
import { cacheRoutes } from '../http/caches.js';
import { chatRoutes } from '../http/chat.js';
import { conversationRoutes } from '../http/conversations.js';
import { estimateRoutes } from '../http/estimate.js';
import { fileRoutes } from '../http/files.js';
import { type EngineHealth, openRoutes } from '../http/health.js';
import { metricsRoutes } from '../http/metrics.js';
import { modelRoutes } from '../http/models.js';
import { OperatorKey } from '../http/operator-key.js';
import {
  consoleRoutes,
  docsRoutes,
  homeRoutes,
  playgroundRoutes,
  sharedRoutes,
} from '../http/pages.js';
import { responseRoutes } from '../http/responses.js';
import type { Route } from '../http/router.js';
import { tagRoutes } from '../http/tags.js';
import { vectorRoutes } from '../http/vectors.js';
import type { Parser } from '../parsing/parser.js';
import type { ModelKind } from '../plugin/contract.js';
import type { Host } from '../pool/host.js';
import type { WireServiceStatus } from '../protocol/admin-status.js';
import { resources } from '../protocol/chat-api.js';
import type { HomeFacts } from '../protocol/home-page.js';
import { openApiDocument } from '../protocol/openapi.js';
import { pluginName } from '../settings/built-in-plugins.js';
import type { AdminKeys } from '../store/admin-keys.js';
import type { VectorService } from '../vectors/service.js';
import { downloadsIn } from '../weights/downloads.js';
import type { OpenAccounts } from './accounts.js';
import type { Context } from './context.js';
import type { OpenResponses } from './responses.js';

export interface RouteParts extends OpenAccounts, OpenResponses {
  readonly catalog: Catalog;
  readonly engines: ReadonlyMap<string, Host>;
  readonly caches: Caches;
  readonly parser: Parser;
  readonly files: Files;
  readonly batches: Batches;
  readonly prompts: PromptLibrary;
  readonly chats: ChatService;
  readonly doctor: PrefixDoctor;
  readonly vectors: VectorService;
  readonly version: string;
  readonly adminKeys: AdminKeys;
  readonly status: () => Promise<WireServiceStatus>;
}

export function allRoutes(context: Context, parts: RouteParts): Route[] {
  const { config, clock, metrics, newBytes } = context;
  const { gate, catalog, files, chats, engines } = parts;
  const document = documentOf(parts);
  const pace = { clock, keepAliveMs: config.limits.keepAliveMs };
  const activity = new Activity(context);
  const models = modelBook(context, catalog);
  const operator = new OperatorKey([config.adminKey], parts.adminKeys);
  return [
    ...chatRoutes(gate, chats, pace),
    ...responseRoutes({ ...parts, service: chats, pace }),
    ...conversationRoutes(parts),
    ...estimateRoutes(gate, parts.parser, estimatesOf(parts)),
    ...vectorRoutes({ gate, parser: parts.parser, service: parts.vectors, newBytes }),
    ...cacheRoutes(gate, parts),
    ...tagRoutes(gate, parts),
    ...fileRoutes(gate, files),
    ...batchRoutes(gate, parts.batches),
    ...modelRoutes(gate, catalog, unixS(clock)),
    ...accountRoutes(gate, clock),
    ...adviceRoutes(gate, parts.doctor),
    ...metricsRoutes(metrics, config.metricsKey, operator),
    ...openRoutes(document, () => healthOf([...engines.values()], catalog)),
    ...docsRoutes(document),
    ...homeRoutes(() => homeOf(parts, operator)),
    ...sharedRoutes(),
    ...consoleRoutes(operator),
    ...playgroundRoutes(),
    ...adminRoutes(operator, { ...parts, activity, models, kept: keptBy(parts), clock }),
  ];
}

function homeOf({ catalog, version }: RouteParts, operator: OperatorKey): HomeFacts {
  const models = catalog.list().map(({ id }) => id);
  return { version, models, hasConsole: operator.exist };
}

function modelBook({ config }: Context, catalog: Catalog): ModelBook {
  const engines = new Map(config.models.map(({ id, engine }) => [id, pluginName(engine)]));
  return new ModelBook({
    catalog,
    engineOf: (id) => engines.get(id) ?? '',
    downloads: async () =>
      (await downloadsIn(config.modelsDir)).map(({ totalBytes, ...download }) => ({
        ...download,
        total_bytes: totalBytes,
      })),
  });
}

/** What counts against the bounds of an account. */
function keptBy({ files, caches, responses, conversations, batches }: RouteParts) {
  return async (user: string) => {
    const file = await files.held(user);
    const response = await responses.held(user);
    const conversation = await conversations.held(user);
    const batch = await batches.held(user);
    return {
      files: file.count,
      file_bytes: file.bytes,
      tags: await caches.tags.held(user),
      responses: response.count,
      response_bytes: response.bytes,
      conversations: conversation.count,
      conversation_bytes: conversation.bytes,
      batches: batch.count,
      batch_bytes: batch.bytes,
    };
  };
}

function healthOf(hosts: readonly Host[], { exact }: Catalog): EngineHealth {
  return { answering: hosts.filter(({ answers }) => answers).length, all: hosts.length, exact };
}

function estimatesOf({ prompts, catalog }: RouteParts): EstimateService {
  return new EstimateService(
    (id) => prompts.forModel(id),
    (policy, id) => {
      catalog.checkAnswers(id, policy);
      return catalog.isOpen(policy, id);
    },
    (policy, id) => catalog.sight(id, catalog.openTo(policy, id), policy),
  );
}

function documentOf({ catalog, version }: RouteParts): ReturnType<typeof openApiDocument> {
  const ids = (kind: ModelKind) =>
    catalog.list().flatMap((model) => (model.kind === kind ? model.id : []));
  const vectors = { embedding: ids('embedding'), rerank: ids('rerank') };
  const families = new Set(catalog.models.map(({ family }) => family));
  return openApiDocument(version, resources(ids('chat'), [...families], vectors));
}
