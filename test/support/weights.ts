/**
 * Owns where tests find the small real model, and its reference tokenizer.
 * It must never fetch anything: without the file, those tests are skipped and say so.
 */
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { getLlama, LlamaLogLevel } from 'node-llama-cpp';

const folder = process.env.PREFACE_MODELS_DIR ?? join(homedir(), '.cache/preface/models');

export const smallModelPath = join(folder, 'SmolLM2-135M-Instruct.Q4_1.gguf');

/** For a test's `skip`. */
export const skipWithoutWeights: string | false = existsSync(smallModelPath)
  ? false
  : `no weights at ${smallModelPath}`;

export interface ReferenceTokenizer {
  /** `special`: the texts of special tokens become those tokens. */
  encode(text: string, special: boolean): number[];
  close(): Promise<void>;
}

/** The engine's own tokenizer; only the vocabulary of the file is loaded. */
export async function openReference(path: string): Promise<ReferenceTokenizer> {
  const llama = await getLlama({ gpu: false, build: 'never', logLevel: LlamaLogLevel.error });
  const model = await llama.loadModel({ modelPath: path, vocabOnly: true });
  return {
    encode: (text, special) => [...model.tokenize(text, special)],
    close: async () => {
      await model.dispose();
      await llama.dispose();
    },
  };
}
