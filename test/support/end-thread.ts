/**
 * Owns the ways a thread or a process can end, or not come back, at one place of its work.
 * It must never run in the process of a test: most of it would end the test.
 */
export function endThread(how: string | undefined): void {
  if (how === 'throw') throw new Error('thrown on purpose');
  if (how === 'abort') process.kill(process.pid, 'SIGABRT');
  if (how === 'kill') process.kill(process.pid, 'SIGKILL');
  if (how === 'exit') process.exit(0);
  if (how === 'heap') fillHeap();
  // A signal to the own process takes a moment: nothing may follow meanwhile.
  if (how !== undefined) for (;;);
}

function fillHeap(): never {
  const kept: unknown[] = [];
  for (;;) kept.push({ of: new Array(100).fill(kept.length) });
}
