/**
 * Owns what a process has of records in PostgreSQL as long as it lives: its claim of the data folder, and the folder's bond with
 * the database. It must never open a store in a folder that another process has, or that belongs to other records.
 */
import { claim, makeFolder, type Release } from './lmdb-open.js';
import { Mirror } from './mirror.js';
import { PostgresConnection } from './postgres-connection.js';
import { openPart } from './postgres-part.js';
import { PostgresStore, type PostgresStoreOptions } from './postgres-store.js';
import { assertOwnFolder } from './store-folder.js';

export class PostgresNode {
  private constructor(
    readonly options: PostgresStoreOptions,
    /** Which its tables got when they were made. */
    readonly storeId: string,
    /** Without user and password. */
    readonly database: string,
    /** With which this machine reaches the database; null for a database on it. */
    readonly localAddress: string | null,
    /** Of the folder, when no store is open any more. */
    readonly close: Release,
  ) {}

  /** @throws Error that names the folder or the database, and the remedy. */
  static async open(options: PostgresStoreOptions): Promise<PostgresNode> {
    const { url, folder } = options;
    makeFolder(folder);
    const release = claim(folder, 'records');
    const connection = new PostgresConnection(url);
    try {
      const storeId = await openPart(connection, 'records');
      const { database, localAddress } = connection;
      assertOwnFolder(folder, storeId, database);
      return new PostgresNode(options, storeId, database, localAddress, release);
    } catch (cause) {
      await release();
      throw cause;
    } finally {
      await connection.close();
    }
  }

  /** With nothing read yet, and without the lease. One at a time. */
  store(close: Release = async () => {}): PostgresStore {
    const { url, folder, clock, bytesMax } = this.options;
    const mirror = new Mirror(folder, 'mirror', bytesMax);
    const connection = new PostgresConnection(url);
    const part = 'records';
    return new PostgresStore({ part, connection, mirror, clock, release: close }, this.storeId);
  }
}

/** For who needs one: the folder is free again when it is closed. @throws Error as `PostgresNode.open`. */
export async function openPostgres(options: PostgresStoreOptions): Promise<PostgresStore> {
  const node = await PostgresNode.open(options);
  try {
    return node.store(node.close);
  } catch (cause) {
    await node.close();
    throw cause;
  }
}
