/**
 * Owns the switch for relaxed SIMD, with which WebAssembly multiplies the whole numbers of tesseract's networks by fewer steps.
 * It must never set a flag that this Node does not know.
 */
import { setFlagsFromString } from 'node:v8';

/** Members of the runtime that this language level's types omit. */
interface WebAssemblyRuntime {
  validate(bytes: Uint8Array): boolean;
}
const { WebAssembly: wasm } = globalThis as unknown as { WebAssembly: WebAssemblyRuntime };

/** A function of `i32.const`, `i8x16.splat`, both again, and `i8x16.relaxed_swizzle`. */
const probe = Uint8Array.from(
  [
    [0, 97, 115, 109, 1, 0, 0, 0],
    [1, 5, 1, 96, 0, 1, 123],
    [3, 2, 1, 0],
    [10, 15, 1, 13, 0, 65, 1, 253, 15, 65, 2, 253, 15, 253, 128, 2, 11],
  ].flat(),
);

export function hasRelaxedSimd(): boolean {
  return wasm.validate(probe);
}

/** Node 20 has it behind a flag, which is looked up at each compilation; later ones have it as it is. */
export function allowRelaxedSimd(): void {
  const [major] = process.versions.node.split('.');
  if (major === '20' && !hasRelaxedSimd()) setFlagsFromString('--experimental-wasm-relaxed-simd');
}
