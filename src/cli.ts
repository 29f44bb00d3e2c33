#!/usr/bin/env node
/**
 * Owns the command line: which commands there are, what they print, and the exit codes 0 (done), 1 (failed), 2 (wrong use).
 * It must never decide anything that the service itself decides, nor show a stack unless asked to.
 */
import { readFileSync } from 'node:fs';
import { Command, CommanderError, Option } from 'commander';
import { note, print, printRows } from './cli-print.js';
import { systemClock } from './clock.js';
import { type Config, loadConfig } from './config.js';
import type { Finding } from './doctor.js';
import { listedModels, pullWeights } from './model-commands.js';
import { addGrantFlags, balanceKind, readUserFlags } from './settings/accounts.js';
import {
  flagOf,
  otherVariables,
  type SettingName,
  settingNames,
  settings,
} from './settings/table.js';

type Flags = Readonly<Record<string, string | undefined>>;

/** Wrong use: exit code 2. */
class UsageError extends Error {}

const FIRST_USER = 'default';

async function run(argv: readonly string[]): Promise<void> {
  try {
    await program().parseAsync(argv);
  } catch (cause) {
    process.exitCode = report(cause);
  }
}

function report(cause: unknown): number {
  // Commander has printed its own line, or the help that was asked for.
  if (cause instanceof CommanderError) return cause.exitCode === 0 ? 0 : 2;
  const error = cause instanceof Error ? cause : new Error(String(cause));
  note(`preface: ${process.env.PREFACE_DEBUG ? error.stack : error.message}`);
  return cause instanceof UsageError ? 2 : 1;
}

function program(): Command {
  const packageUrl = new URL('../../package.json', import.meta.url);
  const { version } = JSON.parse(readFileSync(packageUrl, 'utf8')) as { version: string };
  const root = new Command('preface')
    .description('Self-hosted chat service with explicit context caches')
    .version(version)
    .exitOverride();
  command(root, 'serve', 'start the service', settingNames)
    .addHelpText('after', serveHelp())
    .action((flags: Flags) => serve(flags));
  addKeys(root.command('keys').description('API keys, also while the service runs'));
  addUsers(root.command('users').description('accounts, also while the service runs'));
  addModels(root.command('models').description('the models and their weights'));
  addCaches(root.command('caches').description('context caches, also while the service runs'));
  addFiles(root.command('files').description('files, also while the service runs'));
  command(root, 'doctor', 'check this machine and say what to do', settingNames)
    .option('--json', 'print the findings as JSON')
    .action((flags: Flags) => doctor(flags));
  return root;
}

function addKeys(keys: Command): void {
  command(keys, 'create', 'make a key and print it, for the only time', ['dataDir'])
    .requiredOption('--user <name>', 'whose key it is; all keys of a user share what they own')
    .action((flags: Flags) => createKey(flags));
  command(keys, 'list', 'show the stored keys', ['dataDir'])
    .option('--json', 'print JSON')
    .action((flags: Flags) => listKeys(flags));
  command(keys, 'revoke', 'make a key invalid at once', ['dataDir'])
    .argument('<id>', 'as shown by `preface keys list`: ak-…')
    .action((id: string, flags: Flags) => revokeKey(id, flags));
}

function addUsers(users: Command): void {
  const one = (name: string, text: string, names: SettingName[] = ['dataDir', 'apiKeys']) =>
    command(users, name, text, names).argument('<user>');
  command(users, 'list', 'show the accounts and their limits', ['dataDir', 'apiKeys'])
    .option('--json', 'print JSON')
    .action((flags: Flags) => listUsers(flags));
  one('show', 'print an account as JSON').action(showUser);
  one('suspend', 'refuse every request of an account').action((user: string, flags: Flags) =>
    changeUser(user, { ...flags, state: 'suspended' }),
  );
  one('resume', 'make an account active again').action((user: string, flags: Flags) =>
    changeUser(user, { ...flags, state: 'active' }),
  );
  one('add-balance', 'give an account tokens')
    .argument('<tokens>', `${balanceKind.allowed}`)
    .action((user: string, tokens: string, flags: Flags) => changeUser(user, flags, tokens));
  addGrantFlags(one('set', 'change what an account is granted, at once')).action(
    (user: string, flags: Flags) => changeUser(user, flags),
  );
}

function addModels(models: Command): void {
  const names: SettingName[] = ['modelsDir', 'engine'];
  command(models, 'list', 'show the models and whether their weights are here', names)
    .option('--json', 'print JSON')
    .action((flags: Flags) => listModels(flags));
  command(models, 'pull', 'get the weights that are missing', names)
    .option('--force', 'get them again, whatever is there')
    .action((flags: Flags) => pullModels(flags));
}

function addFiles(files: Command): void {
  command(files, 'list', 'show the files: status, size, name', ['dataDir'])
    .option('--user <name>', 'only those of this user')
    .option('--json', 'print JSON')
    .action(async (flags: Flags) => {
      const { listedFiles } = await import('./file-commands.js');
      printRows(await listedFiles(configOf(flags), flags.user), flags, 'no files');
    });
  command(files, 'show', 'print what is known of a file as JSON', ['dataDir'])
    .argument('<id>', 'as shown by `preface files list`')
    .action(async (id: string, flags: Flags) => {
      const { shownFile } = await import('./file-commands.js');
      print(JSON.stringify(await shownFile(configOf(flags), id), null, 2));
    });
  command(files, 'extract', 'read a document without a service', ['extractors', 'ocrLanguages'])
    .argument('<path>', 'of the document')
    .option('--json', 'print the JSON that the service would answer')
    .action(async (path: string, flags: Flags) => {
      const { extractedText } = await import('./file-commands.js');
      print(await extractedText(configOf(flags), path, Boolean(flags.json)));
    });
}

function addCaches(caches: Command): void {
  command(caches, 'list', 'show the caches: size, hits, tokens saved, time left', ['dataDir'])
    .option('--user <name>', 'only those of this user')
    .option('--json', 'print JSON')
    .action((flags: Flags) => listCaches(flags));
  command(caches, 'show', 'print a cache as JSON, with its messages', ['dataDir'])
    .argument('<id>', 'as shown by `preface caches list`')
    .action((id: string, flags: Flags) => showCache(id, flags));
  command(caches, 'rm', 'delete a cache', ['dataDir', 'host', 'port', 'apiKeys'])
    .argument('<id>', 'as shown by `preface caches list`')
    .option('--key <key>', 'an API key of its user, needed while the service runs')
    .option('--url <url>', 'the running service: http://127.0.0.1:8080/v1')
    .action((id: string, flags: Flags) => removeCache(id, flags));
}

// ----------------------------------------------------------------- settings

/** A command that takes these settings as flags; `--config` belongs to all. */
function command(
  parent: Command,
  name: string,
  text: string,
  names: readonly SettingName[],
): Command {
  const made = parent.command(name).description(text);
  for (const setting of names) {
    const { env, help, fallbackText, kind } = settings[setting];
    const description = `${help} (${kind.allowed}; default: ${fallbackText}) [${env}]`;
    const option = new Option(`${flagOf(env)} <value>`, description);
    made.addOption(option);
  }
  return made.option('--config <file>', `${otherVariables.PREFACE_CONFIG} [PREFACE_CONFIG]`);
}

function serveHelp(): string {
  const keys = settingNames.map((name) => `${name} (${settings[name].env})`).join(', ');
  return `
A flag wins over the environment variable in brackets, that over the settings file, that over the default.
PREFACE_DEBUG: ${otherVariables.PREFACE_DEBUG}.
Keys of the settings file: ${keys};
models, weights, defaults and limits are described in the README.`;
}

function configOf(flags: Flags): Config {
  return rightly(() => loadConfig({ flags, env: process.env }));
}

/** What is wrong in there is wrong use. */
function rightly<Value>(read: () => Value): Value {
  try {
    return read();
  } catch (cause) {
    throw new UsageError((cause as Error).message, { cause });
  }
}

// -------------------------------------------------------------------- serve

async function serve(flags: Flags): Promise<void> {
  const config = configOf(flags);
  let close: (() => Promise<void>) | null = null;
  onSignals((code) => {
    if (close === null) process.exit(code);
    close().then(() => process.exit(0), fail);
    // Whoever asks a second time does not want to wait.
    onSignals((second) => process.exit(second));
  });
  await pullWeights(config, false);
  // Loaded only now: a machine that cannot load the addons can still run every other command.
  const { serve: start } = await import('./main.js');
  if (config.apiKeys.length === 0) {
    const { makeFirstKey } = await import('./key-commands.js');
    await makeFirstKey(config, FIRST_USER);
  }
  const { openLog } = await import('./log.js');
  const log = openLog({ level: config.logLevel, json: !process.stderr.isTTY });
  const service = await start(config, log.line, log.report);
  close = () => service.close();
  print(`preface listening on ${service.url}`);
}

const signalCodes = { SIGINT: 130, SIGTERM: 143 } as const;

function onSignals(act: (code: number) => void): void {
  for (const [signal, code] of Object.entries(signalCodes)) {
    process.removeAllListeners(signal);
    process.on(signal, () => act(code));
  }
}

function fail(cause: unknown): void {
  process.exit(report(cause));
}

// -------------------------------------------------------- keys and accounts

async function createKey(flags: Flags): Promise<void> {
  const { createKey: create } = await import('./key-commands.js');
  await create(configOf(flags), flags.user ?? '');
}

async function listKeys(flags: Flags): Promise<void> {
  const { listKeys: list } = await import('./key-commands.js');
  await list(configOf(flags), flags);
}

async function revokeKey(id: string, flags: Flags): Promise<void> {
  const { revokeKey: revoke } = await import('./key-commands.js');
  await revoke(configOf(flags), id);
}

async function listUsers(flags: Flags): Promise<void> {
  const { listedUsers } = await import('./user-commands.js');
  printRows(await listedUsers(configOf(flags)), flags, 'no users; `preface keys create` makes one');
}

async function showUser(user: string, flags: Flags): Promise<void> {
  const { shownUser } = await import('./user-commands.js');
  print(JSON.stringify(await shownUser(configOf(flags), user), null, 2));
}

async function changeUser(user: string, flags: Flags, tokens?: string): Promise<void> {
  const change = rightly(() => readUserFlags(flags, tokens));
  const { setUser } = await import('./user-commands.js');
  await setUser(configOf(flags), user, change);
  await showUser(user, flags);
}

// ------------------------------------------------------------------- models

async function listModels(flags: Flags): Promise<void> {
  printRows(await listedModels(configOf(flags)), flags, 'no models');
}

async function pullModels(flags: Flags): Promise<void> {
  for (const path of await pullWeights(configOf(flags), Boolean(flags.force))) print(path);
}

// ------------------------------------------------------------------- caches

async function listCaches(flags: Flags): Promise<void> {
  const { listedCaches } = await import('./cache-commands.js');
  const nowMs = systemClock.nowMs();
  printRows(await listedCaches(configOf(flags), nowMs, flags.user), flags, 'no caches');
}

async function showCache(id: string, flags: Flags): Promise<void> {
  const { shownCache } = await import('./cache-commands.js');
  print(JSON.stringify(await shownCache(configOf(flags), id, systemClock.nowMs()), null, 2));
}

async function removeCache(id: string, { url, key, ...flags }: Flags): Promise<void> {
  const { removeCache: remove } = await import('./cache-commands.js');
  await remove(configOf(flags), id, { nowMs: systemClock.nowMs(), url, key });
  print(`removed ${id}`);
}

// ------------------------------------------------------------------- doctor

async function doctor(flags: Flags): Promise<void> {
  const { examine } = await import('./doctor.js');
  const findings = await examine(() => configOf(flags));
  if (flags.json) print(JSON.stringify(findings, null, 2));
  else for (const finding of findings) printFinding(finding);
  if (findings.some(({ state }) => state === 'fail')) process.exitCode = 1;
}

function printFinding({ state, check, text, cure }: Finding): void {
  print(`${state.padEnd(4)}  ${check.padEnd(9)}  ${text}`);
  if (cure !== null) print(`${' '.repeat(17)}→ ${cure}`);
}

await run(process.argv);
