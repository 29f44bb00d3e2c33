/**
 * Owns a process that logs far more than is read from it, prints how much memory that took, and then waits.
 * It must never write anything else on standard error.
 */
import { openLog } from '../../src/telemetry/log.js';

const LINES = 40_000;
const LINE_LENGTH = 1_000;

const { line } = openLog({ level: 'info', json: true });
const text = 'x'.repeat(LINE_LENGTH);
for (let i = 0; i < LINES; i += 1) {
  line(text);
  if (i % 100 === 0) await new Promise(setImmediate);
}
process.stdout.write(`${process.memoryUsage().rss}\n`);
process.stdin.resume();
