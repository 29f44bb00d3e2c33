/**
 * Owns what this process has once, whichever records it serves: keys, engines, models, threads, readers, and what is held of
 * memory and disk. It must never hold a part that knows records.
 */
import { openSharedFile, type SharedFile } from '../admin/open-accounts.js';
import { statusOf } from '../admin/status.js';
import type { Memory } from '../batches/held-bytes.js';
import { PrefillQueue } from '../caches/prefill-queue.js';
import { PromotedDisk } from '../caches/promoted-disk.js';
import type { Catalog } from '../chat/catalog.js';
import type { GenerationLoad } from '../chat/generation.js';
import { PrefixDoctor } from '../chat/prefix-doctor.js';
import { PromotionMemory } from '../chat/promotion.js';
import type { PromptLibrary } from '../chat/prompt-library.js';
import type { Review } from '../chat/review.js';
import { OwnerLoad } from '../fairness/owner-load.js';
import { OperatorKey } from '../http/operator-key.js';
import type { PreparedServer } from '../http/server.js';
import type { Parser } from '../parsing/parser.js';
import { OwnerTurns } from '../parsing/turns.js';
import type { ExtractionPool } from '../pool/extraction.js';
import type { Host } from '../pool/host.js';
import type { WireServiceStatus } from '../protocol/admin-status.js';
import { DiskRoom } from '../store/disk-room.js';
import { Reserve } from '../store/reserve.js';
import { type BlobsHeld, blobsHeld } from '../store/s3-blobs.js';
import type { SnapshotTiers } from '../store/snapshot-tiers.js';
import { levelsOf } from '../telemetry/history.js';
import { VectorService } from '../vectors/service.js';
import type { Context } from './context.js';
import {
  gauges,
  openCatalog,
  openCounter,
  openEngines,
  openParser,
  openPrompts,
} from './engines.js';
import { openExtraction, tryReaders } from './files.js';
import { openReview } from './open-review.js';
import { openSnapshotTiers } from './snapshots.js';
import { packageVersion } from './version.js';

export interface Shared {
  readonly file: SharedFile;
  readonly operator: OperatorKey;
  /** null where prefixes stay on the disk. */
  readonly tiers: SnapshotTiers | null;
  readonly engines: ReadonlyMap<string, Host>;
  readonly prompts: PromptLibrary;
  readonly parser: Parser;
  readonly catalog: Catalog;
  readonly review: Review | null;
  readonly extraction: ExtractionPool;
  readonly vectors: VectorService;
  /** Of the prompts of all owners. */
  readonly doctor: PrefixDoctor;
  /** For the caches of all owners, since the engines are these alone. */
  readonly prefills: PrefillQueue;
  /** Of the caches that nobody named. */
  readonly promoted: PromotedDisk;
  readonly promotions: PromotionMemory;
  /** Chats that wait and run. */
  readonly load: GenerationLoad;
  /** In which the inputs of batches are read. */
  readonly reading: OwnerTurns;
  /** On the disk of the data folder. */
  readonly room: DiskRoom;
  /** Uploads that run. */
  readonly uploads: OwnerLoad;
  /** What files in a bucket hold of memory and disk. */
  readonly blobsHeld: BlobsHeld;
  /** What requests hold. */
  readonly memory: Memory;
  readonly version: string;
  readonly status: () => Promise<WireServiceStatus>;
}

/** The order of opening: who works with a part is opened after it. */
export async function openShared(context: Context, server: PreparedServer): Promise<Shared> {
  const { config, clock, log, opened } = context;
  // The command line makes and revokes keys, and changes accounts, while the service runs.
  const file = opened.add(await openSharedFile(config), (part) => part.close());
  const tiers = openSnapshotTiers(context);
  const engines = openEngines(context, tiers);
  const counter = openCounter(context);
  const prompts = openPrompts(context, counter);
  const parser = openParser(context);
  // While the threads begin: both take a few hundred milliseconds.
  const [catalog, held] = await Promise.all([
    openCatalog(context, engines, prompts),
    tryReaders(context),
  ]);
  const review = await openReview(context);
  const extraction = openExtraction(context, held);
  const parts = { file, tiers, engines, prompts, parser, catalog, review, extraction };
  return {
    ...parts,
    operator: new OperatorKey([config.adminKey], file.adminKeys),
    vectors: new VectorService({ catalog, counter, clock, review }),
    doctor: new PrefixDoctor(clock, log),
    prefills: new PrefillQueue(),
    promoted: new PromotedDisk(clock, config.promote ? config.promotedDisk : 0),
    promotions: new PromotionMemory(),
    reading: new OwnerTurns(1),
    room: new DiskRoom(config.dataDir, Reserve.of(config.dataDir)),
    uploads: new OwnerLoad(),
    blobsHeld: blobsHeld(),
    memory: server.memory,
    ...watched(context, server, parts),
  };
}

type Looked = Pick<Shared, 'engines' | 'catalog' | 'extraction'>;

/** What is told of the process as a whole. */
function watched(context: Context, server: PreparedServer, looked: Looked) {
  const { config, clock, metrics, history } = context;
  const load: GenerationLoad = { waiting: 0, running: 0 };
  const all = {
    ...gauges(context, looked.engines, looked.catalog),
    chats: () => load,
    requests: () => ({ active: server.activeCount, bodyBytesHeld: server.bodyBytesHeld }),
  };
  metrics.watch(all);
  history.watch(() => levelsOf(all));
  const version = packageVersion();
  const look = { ...looked, version, config, clock, load, metrics };
  return { load, version, status: statusOf({ ...look, gauges: all }) };
}
