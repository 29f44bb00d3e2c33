/**
 * Owns a process that is killed while it reads a store: it keeps a read transaction open, says so, and waits.
 * It must never end by itself.
 */
import { FORMAT_RECORD } from '../../src/store/data-format.js';
import { openReadable } from '../../src/store/lmdb-open.js';

const db = openReadable(process.argv[2] ?? '', 'records.mdb', true);
db.get(FORMAT_RECORD, { transaction: db.useReadTransaction() });
process.stdout.write('reading\n');
process.stdin.resume();
