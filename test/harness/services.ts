/**
 * Owns what the harnesses talk to: a service on the echo engine, whose answers are known, and one with a real model.
 * It must never share anything with them but an address and a key.
 */
import type { Test } from 'tap';
import type { SdkServices } from '../sdk/services.js';
import type { Fields } from '../support/chat-client.js';
import { startServiceProcess } from '../support/service-process.js';

/** @param settings of the one with a real model. */
export async function startHarnessServices(t: Test, settings: Fields = {}): Promise<SdkServices> {
  // One thread: the runner has other files at work beside this one.
  const llama = { PREFACE_ENGINE: 'llama', PREFACE_THREADS: '1,1', PREFACE_SLOTS: '2' };
  const [real, echo] = await Promise.all([
    startServiceProcess(t, settings, llama),
    startServiceProcess(t, {}),
  ]);
  return { env: { REAL_URL: real.url, ECHO_URL: echo.url, API_KEY: echo.key } };
}
