/**
 * Owns that a file of a whole run does not follow each promise: tap wants to know in which test an error was thrown that nobody awaits,
 * and pays for it with a hook at the birth and the death of every promise, a quarter of the time of a simulation.
 * It must never hide such an error: it ends the file, which has failed then, and its stack is shown. A file that is run alone is without this.
 */
import hooks, { type AsyncHook } from 'node:async_hooks';
import { syncBuiltinESMExports } from 'node:module';

const none: AsyncHook = { enable: () => none, disable: () => none };
hooks.createHook = () => none;
syncBuiltinESMExports();
