/**
 * Owns the list of the tables in the settings file, and their documentation.
 * It must never know what is in a table.
 */
import { type AccountsConfig, readAccounts } from './accounts.js';
import { fieldsMarkdown, readFields } from './fields.js';
import { type LimitSettings, limitFields } from './limits-table.js';
import {
  type ModelConfig,
  readModels,
  remoteFields,
  type TableDefaults,
  timeoutFields,
  upstreamFields,
} from './models-table.js';
import type { Json, SettingPath } from './setting-path.js';
import {
  DRAFT_WEIGHTS,
  readWeights,
  type WeightsTable,
  weightsFields,
  wheelFields,
} from './weights-table.js';

export interface FileTables {
  readonly models: readonly ModelConfig[];
  readonly weights: WeightsTable;
  readonly limits: LimitSettings;
  /** What is stored for an account wins. */
  readonly accounts: AccountsConfig;
}

export const tableNames = ['models', 'weights', 'defaults', 'limits', 'accounts'] as const;

export function readTables(file: Json, top: SettingPath, given: TableDefaults): FileTables {
  const written = readWeights(file.weights ?? {}, top.in('weights'));
  const own = given.weightFiles.map(({ id, weights }) => [id, weights] as const);
  const draft = given.draft === null ? {} : { [DRAFT_WEIGHTS]: given.draft };
  const weights = { ...written, ...Object.fromEntries(own), ...draft };
  return {
    weights,
    models: readModels(file, top, weights, given),
    limits: readFields(limitFields, file.limits ?? {}, top.in('limits')),
    accounts: readAccounts(file.accounts ?? {}, top.in('accounts')),
  };
}

/** The tables of the folder's README; a test holds the two together. */
export const fileTablesMarkdown: Readonly<Record<string, string>> = {
  models: fieldsMarkdown(remoteFields),
  upstreams: fieldsMarkdown(upstreamFields),
  timeouts: fieldsMarkdown(timeoutFields),
  weights: fieldsMarkdown(weightsFields),
  wheel: fieldsMarkdown(wheelFields),
  limits: fieldsMarkdown(limitFields),
};
