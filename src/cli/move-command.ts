/**
 * Owns the command that moves a user from one node to another, in three steps.
 * It must load what opens the store only when it runs: `--help` works on any machine.
 */
import type { Command } from 'commander';
import { print } from './print.js';
import { command, configOf, type Flags, UsageError } from './settings.js';

const steps = {
  out: { verb: 'pack', done: 'packed; suspended here' },
  in: { verb: 'unpack', done: 'unpacked; start the service, then send the user here' },
  gone: { verb: 'remove', done: 'removed here; the account stays suspended' },
} as const;

export function addMove(users: Command): void {
  command(users, 'move', 'move a user to another data folder, step by step', ['dataDir'])
    .argument('<user>')
    .option(
      '--out <folder>',
      'first, on the old node: suspend the user and pack all their data into a bundle',
    )
    .option(
      '--in <folder>',
      'then, on the new node while its service is stopped: unpack the bundle',
    )
    .option(
      '--gone <folder>',
      'last, on the old node while its service is stopped: remove what the bundle holds',
    )
    .action(moveUser);
}

async function moveUser(user: string, flags: Flags): Promise<void> {
  const given = Object.keys(steps).filter((name) => flags[name] !== undefined);
  const [name] = given as (keyof typeof steps)[];
  if (name === undefined || given.length > 1) {
    throw new UsageError('one of --out, --in and --gone is needed, with the folder of the bundle');
  }
  const step = steps[name];
  const { [step.verb]: act } = await import('../admin/user-move.js');
  const { records, files } = await act(configOf(flags), user, String(flags[name]));
  print(`${user}: ${records} records and ${files} blobs of files ${step.done}`);
}
