/**
 * Owns the commands about files and context caches.
 * It must load what opens the store only when a command runs: `--help` works on any machine.
 */
import type { Command } from 'commander';
import { systemClock } from '../clock.js';
import { print, printJson, printRows, printText } from './print.js';
import { command, configOf, type Flags } from './settings.js';

export function addFiles(files: Command): void {
  command(files, 'list', 'show the files: status, size, name', ['dataDir', 'store'])
    .option('--user <name>', 'only those of this user')
    .option('--json', 'print JSON')
    .action(async (flags: Flags) => {
      const { listedFiles } = await import('./file-commands.js');
      printRows(await listedFiles(configOf(flags), flags.user), flags, 'no files');
    });
  command(files, 'show', 'print the record of a file as JSON', ['dataDir', 'store'])
    .argument('<id>', 'as shown by `preface files list`')
    .action(async (id: string, flags: Flags) => {
      const { shownFile } = await import('./file-commands.js');
      printJson(await shownFile(configOf(flags), id));
    });
  command(files, 'extract', 'read a document without a service', [
    'extractors',
    'ocrLanguages',
    'ocrData',
    'ocrProgram',
    'ocrPictures',
  ])
    .argument('<path>', 'of the document')
    .option('--json', 'print the JSON that the service answers')
    .action(async (path: string, flags: Flags) => {
      const { extractedText } = await import('./file-commands.js');
      printText(await extractedText(configOf(flags), path, Boolean(flags.json)));
    });
}

export function addCaches(caches: Command): void {
  command(caches, 'list', 'show the caches: size, hits, tokens saved, time left', [
    'dataDir',
    'store',
  ])
    .option('--user <name>', 'only those of this user')
    .option('--json', 'print JSON')
    .action((flags: Flags) => listCaches(flags));
  command(caches, 'show', 'print a cache as JSON, with its messages', ['dataDir', 'store'])
    .argument('<id>', 'as shown by `preface caches list`')
    .action((id: string, flags: Flags) => showCache(id, flags));
  command(caches, 'rm', 'delete a cache', ['dataDir', 'store', 'host', 'port', 'apiKeys'])
    .argument('<id>', 'as shown by `preface caches list`')
    .option('--key <key>', 'API key of its user, needed while the service runs')
    .option('--url <url>', 'base URL of the running service, like http://127.0.0.1:8080/v1')
    .action((id: string, flags: Flags) => removeCache(id, flags));
}

async function listCaches(flags: Flags): Promise<void> {
  const { listedCaches } = await import('./cache-commands.js');
  const nowMs = systemClock.nowMs();
  printRows(await listedCaches(configOf(flags), nowMs, flags.user), flags, 'no caches');
}

async function showCache(id: string, flags: Flags): Promise<void> {
  const { shownCache } = await import('./cache-commands.js');
  printJson(await shownCache(configOf(flags), id, systemClock.nowMs()));
}

async function removeCache(id: string, { url, key, ...flags }: Flags): Promise<void> {
  const { removeCache: remove } = await import('./cache-commands.js');
  await remove(configOf(flags), id, { nowMs: systemClock.nowMs(), url, key });
  print(`removed ${id}`);
}
