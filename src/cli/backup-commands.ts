/**
 * Owns the commands that back up a data folder and restore one.
 * It must load what opens the store only when a command runs: `--help` works on any machine.
 */
import type { Command } from 'commander';
import { sizeText } from '../weights/progress.js';
import { print } from './print.js';
import { command, configOf, type Flags } from './settings.js';

export function addBackup(root: Command): void {
  command(root, 'backup', 'copy the data folder, also while the service runs', ['dataDir'])
    .argument('<folder>', 'new or empty folder for the backup')
    .action(async (folder: string, flags: Flags) => {
      const { backUp } = await import('../admin/backup.js');
      const { files, bytes } = await backUp(configOf(flags), folder);
      print(`backed up into ${folder}: ${files} blobs of files, ${sizeText(bytes)} in all`);
    });
  command(root, 'restore', 'copy a backup into an empty data folder', ['dataDir'])
    .argument('<folder>', 'folder that `preface backup` made')
    .action(async (folder: string, flags: Flags) => {
      const config = configOf(flags);
      const { restore } = await import('../admin/backup.js');
      const { files, bytes } = await restore(config, folder);
      print(`restored into ${config.dataDir}: ${files} blobs of files, ${sizeText(bytes)} in all`);
    });
}
