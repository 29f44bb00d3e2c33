/**
 * Owns a process that makes the programs from Go, beside the first files of a run: a test that wants one finds it made, or waits for it.
 * It must never decide that one is missing: the test that wants it says so.
 */
import { COMPOSE, goTool, VERSITYGW } from './go-tool.js';

// One after the other: the second finds most of what it needs compiled.
await goTool(...VERSITYGW);
await goTool(...COMPOSE);
