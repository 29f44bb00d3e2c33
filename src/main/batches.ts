/**
 * Owns the opening of the batches.
 * It must never serve a request before the batches of the last run are taken up.
 */

import type { Accounts } from '../accounts/accounts.js';
import { Batches, type BatchesParts } from '../batches/batches.js';
import type { Memory } from '../batches/held-bytes.js';
import type { ChatService } from '../chat/service.js';
import type { Files } from '../files/files.js';
import type { Gate } from '../http/gate.js';
import type { Parser } from '../parsing/parser.js';
import type { OwnerTurns } from '../parsing/turns.js';
import type { VectorService } from '../vectors/service.js';
import { type Context, faultLog } from './context.js';
import type { ShardRecords } from './records.js';

export interface BatchParts extends Pick<ShardRecords, 'records' | 'elsewhere'> {
  readonly gate: Gate;
  readonly accounts: Accounts;
  readonly files: Files;
  readonly chats: ChatService;
  readonly parser: Parser;
  readonly vectors: VectorService;
  readonly memory: Memory;
  readonly reading: OwnerTurns;
}

export async function openBatches(context: Context, parts: BatchParts): Promise<Batches> {
  const { clock, newBytes, opened } = context;
  const { records: store, elsewhere, gate, parser, reading } = parts;
  const { accounts, files, chats, vectors, memory } = parts;
  const policyOf = (owner: string) => gate.policies.of(owner);
  const max = (owner: string) => {
    const { batches: count, batchBytes: bytes } = policyOf(owner);
    return { count, bytes };
  };
  const all = {
    accounts,
    files,
    chats,
    vectors,
    memory,
    store,
    elsewhere,
    parser,
    policyOf,
    clock,
    newBytes,
    max,
    report: faultLog(context, 'batch'),
    took: context.report,
    isKey: (keyId: string) => gate.keys.isLive(keyId),
    readLine: parser.batchLine.bind(parser),
    inTurn: reading.run.bind(reading),
  } satisfies BatchesParts;
  const batches = opened.add(new Batches(all), (part) => part.close());
  await batches.start();
  return batches;
}
