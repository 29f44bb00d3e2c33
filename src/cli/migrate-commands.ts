/**
 * Owns the command that moves the records between a data folder and PostgreSQL.
 * It must load what opens the stores only when it runs: `--help` works on any machine.
 */
import type { Command } from 'commander';
import { print } from './print.js';
import { command, configOf, type Flags } from './settings.js';

export function addMigrate(root: Command): void {
  const text =
    'copy records and keys between data folder and PostgreSQL, with all services stopped';
  const migration = command(root, 'migrate', text, ['dataDir', 'store']);
  const to = migration.createArgument('<to>', 'where they are from then on');
  migration.addArgument(to.choices(['postgres', 'folder'])).action(migrate);
}

async function migrate(to: 'postgres' | 'folder', flags: Flags): Promise<void> {
  const { migrateToFolder, migrateToPostgres } = await import('../admin/migrate.js');
  const act = to === 'postgres' ? migrateToPostgres : migrateToFolder;
  const { records, keys } = await act(configOf(flags));
  print(`copied and compared: ${records} records, ${keys} records of keys and grants`);
}
