/**
 * Owns what every plugin is, whatever its kind.
 * It must import nothing.
 */

export const CONTRACT_VERSION = 1;

export type PluginKind = 'engine' | 'tokenizer' | 'extractor' | 'filter';

/** A plugin is the default export of a module; `open` returns the service it provides. */
export interface Plugin<Kind extends PluginKind, Options, Service> {
  readonly kind: Kind;
  readonly name: string;
  readonly contract: typeof CONTRACT_VERSION;
  open(options: Options): Promise<Service>;
}
