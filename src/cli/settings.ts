/**
 * Owns how a command takes settings: as flags with their help, and as the configuration they make.
 * It must never run a command, nor load what a command works with.
 */
import type { Command } from 'commander';
import { type Config, loadConfig } from '../settings/config.js';
import {
  flagOf,
  otherVariables,
  type SettingName,
  settingNames,
  settings,
} from '../settings/table.js';

export type Flags = Readonly<Record<string, string | undefined>>;

/** Wrong use: exit code 2. */
export class UsageError extends Error {}

/** A command that takes these settings as flags; `--config` belongs to all. */
export function command(
  parent: Command,
  name: string,
  text: string,
  names: readonly SettingName[],
): Command {
  const made = parent.command(name).description(text);
  for (const setting of names) {
    const { env, help, fallbackText, kind } = settings[setting];
    const description = `${help} (${kind.allowed}; default: ${fallbackText}) [${env}]`;
    const option = made.createOption(`${flagOf(env)} <value>`, description);
    made.addOption(option);
  }
  return made.option('--config <file>', `${otherVariables.PREFACE_CONFIG} [PREFACE_CONFIG]`);
}

export function serveHelp(): string {
  const keys = settingNames.map((name) => `${name} (${settings[name].env})`).join(', ');
  return `
A flag wins over the environment variable in brackets, that over the settings file, that over the default.
PREFACE_DEBUG: ${otherVariables.PREFACE_DEBUG}.
Keys of the settings file: ${keys};
models, weights, defaults and limits are described in the README.`;
}

export function configOf(flags: Flags): Config {
  return rightly(() => loadConfig({ flags, env: process.env }));
}

/** What is wrong in there is wrong use. */
export function rightly<Value>(read: () => Value): Value {
  try {
    return read();
  } catch (cause) {
    throw new UsageError((cause as Error).message, { cause });
  }
}
