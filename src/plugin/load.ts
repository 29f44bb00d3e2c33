/**
 * Owns finding a plugin module and checking that it is what it is asked to be.
 * It must never import a plugin by name: which ones exist is the configuration's business.
 */
import { isAbsolute } from 'node:path';
import { pathToFileURL } from 'node:url';
import type {
  EnginePlugin,
  ExtractorPlugin,
  FilterPlugin,
  PluginKind,
  TokenizerPlugin,
} from './contract.js';
import { CONTRACT_VERSION } from './contract.js';

interface PluginByKind {
  engine: EnginePlugin;
  tokenizer: TokenizerPlugin;
  extractor: ExtractorPlugin;
  filter: FilterPlugin;
}

/**
 * @param module absolute path, file URL or package name; its default export is the plugin.
 * @throws Error that names the module and what it lacks.
 */
export async function loadPlugin<Kind extends keyof PluginByKind>(
  module: string,
  kind: Kind,
): Promise<PluginByKind[Kind]> {
  const loaded: unknown = await importModule(module);
  const plugin = (loaded as { default?: unknown }).default;
  const lack = lackOf(plugin, kind);
  if (lack !== null) throw new Error(`plugin ${module} ${lack}`);
  return plugin as PluginByKind[Kind];
}

async function importModule(module: string): Promise<unknown> {
  const specifier = isAbsolute(module) ? pathToFileURL(module).href : module;
  try {
    return await import(specifier);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`plugin ${module} cannot be loaded: ${reason}`, { cause });
  }
}

function lackOf(plugin: unknown, kind: PluginKind): string | null {
  if (typeof plugin !== 'object' || plugin === null) return 'has no default export';
  const { kind: has, contract, open } = plugin as Record<string, unknown>;
  if (has !== kind) return `is of kind ${JSON.stringify(has)}, wanted "${kind}"`;
  if (contract !== CONTRACT_VERSION) {
    return `speaks contract ${JSON.stringify(contract)}, wanted ${CONTRACT_VERSION}`;
  }
  return typeof open === 'function' ? null : 'has no function `open`';
}
