/**
 * Owns the bound on a wait for what another side does: an upstream, a thread.
 * It must never count as missing what has come before anybody could look at it.
 */

/**
 * Calls `act` when the time is over and the loop has looked at its sockets and ports since. A loop that stood still meets its
 * timers first: what has arrived meanwhile would count as missing.
 * @returns cancels it.
 */
export function later(ms: number, act: () => void): () => void {
  let isWanted = true;
  const timer = setTimeout(() => {
    setImmediate(() => {
      if (isWanted) act();
    });
  }, ms);
  return () => {
    isWanted = false;
    clearTimeout(timer);
  };
}
