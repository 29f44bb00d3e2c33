/**
 * Owns the refusal of a data folder that has lost its records: what they explained would be taken for rubbish.
 * It must never change anything.
 */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

const FILES = 'files';
const RECORDS = 'records.mdb';

/** @throws Error that says what is missing, and both ways on. */
export function assertNoLoss(folder: string, file: string): void {
  if (file !== RECORDS) return;
  const path = join(folder, file);
  const missing = !existsSync(path);
  if (!missing && statSync(path).size > 0) return;
  const blobs = existsSync(join(folder, FILES)) ? readdirSync(join(folder, FILES)).length : 0;
  if (blobs === 0) return;
  throw new Error(
    `the data folder ${folder} has lost its records: ${RECORDS} is ${missing ? 'missing' : 'empty'}, but ${FILES} holds ` +
      `${blobs} blobs of files. Either move the folder away and bring back a backup with \`preface restore <backup>\`, or ` +
      'start once with `preface serve --accept-data-loss`, which removes these files',
  );
}
