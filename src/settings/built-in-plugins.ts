/**
 * Owns the names of the built-in plugins and the paths of their modules.
 * It must never load a plugin.
 */
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const folder = fileURLToPath(new URL('../../plugins/', import.meta.url));

/**
 * Name in the settings → module in the folder `plugins` of the build. A name begins with its kind. A plugin of many files
 * is bundled into one beside its folder (`npm run bundle`), so that the package stays small.
 */
export const builtInPlugins: Readonly<Record<string, string>> = {
  'engine-echo': 'engines/echo.js',
  'engine-llama': 'engines/llama.js',
  'engine-openai': 'engines/openai.js',
  'extractor-doc': 'extractors/doc.js',
  'extractor-docx': 'extractors/docx.js',
  'extractor-epub': 'extractors/epub.js',
  'extractor-html': 'extractors/html.js',
  'extractor-image': 'extractors/image.js',
  'extractor-mail': 'extractors/mail.js',
  'extractor-mobi': 'extractors/mobi.js',
  'extractor-open': 'extractors/open.js',
  'extractor-pdf': 'extractors/pdf.js',
  'extractor-ppt': 'extractors/ppt.js',
  'extractor-pptx': 'extractors/pptx.js',
  'extractor-rtf': 'extractors/rtf.js',
  'extractor-text': 'extractors/text.js',
  'extractor-xls': 'extractors/xls.js',
  'extractor-xlsx': 'extractors/xlsx.js',
  'extractor-xml-2003': 'extractors/xml-2003.js',
  'extractor-zip': 'extractors/zip.js',
  'filter-words': 'filters/words.js',
  'tokenizer-bytes': 'tokenizers/bytes/index.js',
  'tokenizer-gguf': 'tokenizers/gguf.js',
  'tokenizer-tiktoken': 'tokenizers/tiktoken.js',
  'tokenizer-upstream': 'tokenizers/upstream.js',
};

/** Built-in engines without native code, as they say themselves: no process is started to find that out. */
export const nativeFreeEngines: ReadonlySet<string> = new Set(['engine-echo', 'engine-openai']);

/** @returns absolute path of the module, undefined where no built-in plugin has this name. */
export function builtInPath(name: string): string | undefined {
  const module = Object.hasOwn(builtInPlugins, name) ? builtInPlugins[name] : undefined;
  return module === undefined ? undefined : resolve(folder, module);
}

/** @returns the built-in plugin's name for its own path; for any other plugin its path or package. */
export function pluginName(module: string): string {
  return Object.keys(builtInPlugins).find((name) => builtInPath(name) === module) ?? module;
}
