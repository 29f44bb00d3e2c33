/**
 * Owns how a command takes settings: as flags with their help, and as the configuration they make.
 * It must never run a command, nor load what a command works with.
 */
import type { Command } from 'commander';
import { type Config, loadConfig } from '../settings/config.js';
import {
  defaultOf,
  flagOf,
  otherVariables,
  type SettingName,
  settingNames,
  settings,
  variableOf,
} from '../settings/table.js';

export type Flags = Readonly<Record<string, string | undefined>>;

/** The user gave something wrong: exit code 2. */
export class UsageError extends Error {}

/** A command that takes these settings, and `--config`, as flags. */
export function command(
  parent: Command,
  name: string,
  text: string,
  names: readonly SettingName[],
): Command {
  const made = parent.command(name).description(text);
  for (const setting of names) {
    const { help, kind } = settings[setting];
    const bounds = `${kind.allowed}; default: ${defaultOf(setting)}`;
    const text = `${help} (${bounds}) [${variableOf(setting)}]`;
    if (repeatable.has(setting)) made.option(`${flagOf(setting)} <value>`, text, joined);
    else made.option(`${flagOf(setting)} <value>`, text);
  }
  return made.option('--config <file>', `${otherVariables.PREFACE_CONFIG} [PREFACE_CONFIG]`);
}

/** Lists of files: a shell completes one name a flag. */
const repeatable: ReadonlySet<SettingName> = new Set(['weightFiles']);

function joined(value: string, earlier: string | undefined): string {
  return earlier === undefined ? value : `${earlier},${value}`;
}

export function serveHelp(): string {
  const keys = settingNames.map((name) => `${name} (${variableOf(name)})`).join(', ');
  return `
A flag wins over the environment variable in brackets, that over the settings file, that over the default.
PREFACE_DEBUG: ${otherVariables.PREFACE_DEBUG}.
Keys of the settings file: ${keys};
models, defaults, weights, limits and accounts are described in src/settings/README.md.`;
}

export function configOf(flags: Flags): Config {
  return rightly(() => loadConfig({ flags, env: process.env }));
}

/** Turns an error of the reading into wrong use. */
export function rightly<Value>(read: () => Value): Value {
  try {
    return read();
  } catch (cause) {
    throw new UsageError((cause as Error).message, { cause });
  }
}
