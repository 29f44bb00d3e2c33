/**
 * Owns the run of a tokenization task in a pool thread: open the plugin once, call it, answer.
 * It must never throw across the thread: an error is a value, since cloning loses its class and fields.
 */
import { setImmediate } from 'node:timers/promises';
import { toErrorValue } from '../src/errors.js';
import { limits } from '../src/limits/index.js';
import type { Tokenizer } from '../src/plugin/contract.js';
import { loadPlugin } from '../src/plugin/load.js';
import type {
  PackedText,
  TokenizeResult,
  TokenizerRef,
  TokenizeTask,
} from '../src/pool/messages.js';
import { step } from '../src/pool/thread-watch.js';

/** One per vocabulary for the life of the thread: building one takes a third of a second. */
const opened = new Map<string, Promise<Tokenizer>>();

export default async function tokenize(task: TokenizeTask): Promise<TokenizeResult> {
  try {
    const tokenizer = await tokenizerOf(task.tokenizer);
    return task.type === 'info'
      ? { type: 'info', info: tokenizer.info() }
      : await encodeAll(tokenizer, task.texts);
  } catch (cause) {
    return { type: 'error', error: toErrorValue(cause) };
  }
}

async function tokenizerOf({ module, ...options }: TokenizerRef): Promise<Tokenizer> {
  const key = JSON.stringify([module, options.path]);
  const known = opened.get(key);
  if (known !== undefined) return await known;
  const opening = loadPlugin(module, 'tokenizer').then((plugin) => plugin.open(options));
  opened.set(key, opening);
  // After a failure, such as a missing file, the next task tries again.
  opening.catch(() => opened.delete(key));
  return await opening;
}

/** Between its steps the thread takes new tasks: a long text must not hold up short ones. */
async function encodeLong(tokenizer: Tokenizer, text: string): Promise<Uint32Array> {
  const steps = tokenizer.encodeInSteps?.(text);
  if (steps === undefined) return step(() => tokenizer.encode(text));
  let pauseMs = performance.now() + limits.encodeStepMs;
  for (;;) {
    const next = step(() => steps.next());
    if (next.done === true) return next.value;
    if (performance.now() < pauseMs) continue;
    await setImmediate();
    pauseMs = performance.now() + limits.encodeStepMs;
  }
}

/** Copied, not transferred, to the other thread: the ids of a prompt are small, and a transfer costs more. */
async function encodeAll(
  tokenizer: Tokenizer,
  texts: readonly (string | PackedText)[],
): Promise<TokenizeResult> {
  const parts: Uint32Array[] = [];
  for (const given of texts) {
    const text = typeof given === 'string' ? given : textOf(given);
    if (tokenizer.encodeLater !== undefined) {
      parts.push(await tokenizer.encodeLater(text));
      continue;
    }
    const isShort = text.length <= limits.encodeChunkLengthMax;
    parts.push(isShort ? step(() => tokenizer.encode(text)) : await encodeLong(tokenizer, text));
  }
  const lengths = Uint32Array.from(parts, (part) => part.length);
  const ids = new Uint32Array(lengths.reduce((sum, length) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    ids.set(part, at);
    at += part.length;
  }
  return { type: 'encoded', ids, lengths };
}

function textOf({ memory, byteOffset, length, isWide }: PackedText): string {
  const bytes = Buffer.from(memory, byteOffset, isWide ? 2 * length : length);
  return bytes.toString(isWide ? 'utf16le' : 'latin1');
}
