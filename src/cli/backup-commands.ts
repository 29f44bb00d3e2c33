/**
 * Owns the commands that back up a data folder and restore one.
 * It must load what opens the store only when a command runs: `--help` works on any machine.
 */
import type { Command } from 'commander';
import type { BackupNote } from '../admin/backup.js';
import { sizeText } from '../weights/progress.js';
import { print } from './print.js';
import { command, configOf, type Flags } from './settings.js';

export function addBackup(root: Command): void {
  command(root, 'backup', 'copy the data folder, also while the service runs', ['dataDir'])
    .argument('<folder>', 'new or empty folder for the backup')
    .action(async (folder: string, flags: Flags) => {
      const { backUp } = await import('../admin/backup.js');
      print(`backed up into ${folder}: ${noteText(await backUp(configOf(flags), folder))}`);
    });
  command(root, 'restore', 'copy a backup into an empty data folder', ['dataDir'])
    .argument('<folder>', 'folder that `preface backup` made')
    .action(async (folder: string, flags: Flags) => {
      const config = configOf(flags);
      const { restore } = await import('../admin/backup.js');
      print(`restored into ${config.dataDir}: ${noteText(await restore(config, folder))}`);
    });
}

function noteText({ files, bytes, bucket }: BackupNote): string {
  const size = `${sizeText(bytes)} in all`;
  if (bucket === undefined) return `${files} blobs of files, ${size}`;
  return `the records, ${size}; the bytes of files stay in ${bucket}`;
}
