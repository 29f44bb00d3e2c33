/**
 * Owns the turning of pictures: by quarters, as in a mirror, and the guess which way their lines run.
 * It must never decide whether a picture holds text.
 */
import type { GreyPicture } from './picture.js';

/** Degrees, clockwise. */
export type Turn = 0 | 90 | 180 | 270;

export function turned({ width, height, pixels }: GreyPicture, turn: Turn): GreyPicture {
  if (turn === 0) return { width, height, pixels };
  const out = new Uint8Array(pixels.length);
  if (turn === 180) {
    for (let at = 0; at < pixels.length; at += 1) out[pixels.length - 1 - at] = pixels[at] ?? 0;
    return { width, height, pixels: out };
  }
  for (let y = 0; y < height; y += 1) {
    // A row becomes a column: from the right, or from the left upwards.
    const column = turn === 90 ? height - 1 - y : y;
    for (let x = 0; x < width; x += 1) {
      const row = turn === 90 ? x : width - 1 - x;
      out[row * height + column] = pixels[y * width + x] ?? 0;
    }
  }
  return { width: height, height: width, pixels: out };
}

/** Left and right change places, as on the back of a transparent sheet. */
export function mirrored({ width, height, pixels }: GreyPicture): GreyPicture {
  const out = new Uint8Array(pixels.length);
  for (let y = 0; y < height; y += 1) {
    out.set(pixels.subarray(y * width, (y + 1) * width).toReversed(), y * width);
  }
  return { width, height, pixels: out };
}

/** Lines of text make the ink of rows rise and fall; where the ink of columns does so more, they run upwards or down. */
export function runsSideways(picture: GreyPicture): boolean {
  const { width, height, pixels } = picture;
  const rows = new Float64Array(height);
  const columns = new Float64Array(width);
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      const ink = 255 - (pixels[y * width + x] ?? 255);
      rows[y] = (rows[y] ?? 0) + ink;
      columns[x] = (columns[x] ?? 0) + ink;
    }
  }
  return roughness(columns, height) > roughness(rows, width);
}

/** Mean square of the difference between neighbours, for lines of equal length. */
function roughness(sums: Float64Array, length: number): number {
  let total = 0;
  for (let at = 1; at < sums.length; at += 1) {
    total += (((sums[at] ?? 0) - (sums[at - 1] ?? 0)) / length) ** 2;
  }
  return total / sums.length;
}
