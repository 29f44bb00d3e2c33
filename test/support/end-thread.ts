/**
 * Owns the ways in which a thread or a process can end or hang at one point of its work.
 * It must never run in the process of a test, which most of them would end.
 */
export function endThread(how: string | undefined): void {
  if (how === 'throw') throw new Error('thrown on purpose');
  if (how === 'abort') process.kill(process.pid, 'SIGABRT');
  if (how === 'kill') process.kill(process.pid, 'SIGKILL');
  if (how === 'exit') process.exit(0);
  if (how === 'heap') fillHeap();
  // A signal to its own process takes a moment to arrive: no code may run meanwhile.
  if (how !== undefined) for (;;);
}

function fillHeap(): never {
  const kept: unknown[] = [];
  for (;;) kept.push({ of: new Array(100).fill(kept.length) });
}
