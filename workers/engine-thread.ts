/**
 * Owns the inside of a thread of the main process in which an engine runs: it opens the engine once it is told to.
 * It must end with its asker, and never open an engine with native code.
 */
import { once } from 'node:events';
import { parentPort, workerData } from 'node:worker_threads';
import type { HostOpen, ThreadStart } from '../src/pool/messages.js';
import infer from './infer.js';

const { engine, asker } = workerData as ThreadStart;
if (parentPort === null) throw new Error('it is started as a thread');
const [{ warmFirst }] = (await once(parentPort, 'message')) as [HostOpen];
await infer({ type: 'serve', engine, asker, warmFirst, place: 'thread' });
process.exit(1);
