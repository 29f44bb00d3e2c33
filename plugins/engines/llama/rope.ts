/**
 * Owns how positions are stretched where a window is larger than what a model is trained for.
 * It must never take the place of what the model's own file says of its positions within its trained window.
 */
import type { GgufMetadata } from '../../gguf.js';

/** What a file says of its own stretching. */
export interface RopeFacts {
  readonly type: string;
  readonly factor: number;
  /** Tokens that it was trained for before it was stretched; 0: the file does not say. */
  readonly original: number;
}

/** What a context is told; the rest stays as the file says. */
export interface RopeSettings {
  readonly type: number;
  readonly scale: number;
  readonly original: number;
}

const LINEAR = 1;
const YARN = 2;

export function ropeFacts(metadata: GgufMetadata, architecture: string): RopeFacts | null {
  const at = (key: string) => metadata[`${architecture}.rope.scaling.${key}`];
  const old = metadata[`${architecture}.rope.scale_linear`];
  const type = String(at('type') ?? (old === undefined ? 'none' : 'linear'));
  if (type === 'none') return null;
  const factor = Number(at('factor') ?? old ?? 1);
  return { type, factor, original: Number(at('original_context_length') ?? 0) };
}

/** Of the model's facts. */
interface Stretched {
  readonly trainedWindow: number;
  readonly memory: string;
  readonly rope?: RopeFacts | null;
}

/** Null: as the file says. */
export function ropeSettings(
  { trainedWindow, memory, rope = null }: Stretched,
  window: number,
): RopeSettings | null {
  // A recurrent state has no positions.
  if (window <= trainedWindow || memory === 'recurrent') return null;
  // Its file has factors of its own for long windows, which the library takes.
  if (rope?.type === 'longrope') return null;
  if (rope?.type === 'linear') {
    const scale = trainedWindow / (Math.max(1, rope.factor) * window);
    return { type: LINEAR, scale, original: trainedWindow };
  }
  const own = rope?.type === 'yarn' && rope.original > 0 ? rope.original : trainedWindow;
  return { type: YARN, scale: own / window, original: own };
}
