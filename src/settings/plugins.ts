/**
 * Owns the search for the plugin that a name in the settings stands for: built in, a path or an installed package.
 * It must never load the plugin, only find it.
 */
import { existsSync } from 'node:fs';
import { isAbsolute, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { builtInPath, builtInPlugins } from './built-in-plugins.js';

export type NamedKind = 'engine' | 'tokenizer' | 'extractor' | 'filter';

export interface PluginFinder {
  /** @returns absolute path, file URL or package name; undefined where there is no such module. */
  find(kind: NamedKind, name: string, folder: string): string | undefined;
  /** @returns absolute paths of every built-in plugin of this kind, by name. */
  builtIns(kind: NamedKind): readonly string[];
}

export const pluginFinder: PluginFinder = {
  find(kind, name, folder) {
    if (/^\.{0,2}\//.test(name)) return existing(resolve(folder, name));
    if (isAbsolute(name)) return existing(name);
    if (name.startsWith('file:')) return existing(fileURLToPath(name));
    return builtInPath(name) ?? builtInPath(`${kind}-${name}`) ?? installed(name);
  },
  builtIns: (kind) =>
    Object.keys(builtInPlugins)
      .filter((name) => name.startsWith(`${kind}-`))
      .flatMap((name) => builtInPath(name) ?? []),
};

function existing(path: string): string | undefined {
  return existsSync(path) ? path : undefined;
}

function installed(name: string): string | undefined {
  try {
    import.meta.resolve(name);
    return name;
  } catch {
    return undefined;
  }
}
