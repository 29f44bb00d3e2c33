/**
 * Owns the levelling of pictures whose lines lie a little askew.
 * It must never change the size of a picture: places within it are told by the same pixels.
 */
import type { GreyPicture } from './picture.js';

const WHITE = 255;

/** Turned round its centre, clockwise; what comes in from outside is white. */
export function levelled({ width, height, pixels }: GreyPicture, radians: number): GreyPicture {
  const out = new Uint8Array(pixels.length).fill(WHITE);
  const [cos, sin] = [Math.cos(radians), Math.sin(radians)];
  const [middleX, middleY] = [(width - 1) / 2, (height - 1) / 2];
  for (let y = 0; y < height; y += 1) {
    // Where the row's first pixel comes from; the next ones lie a step further each.
    let fromX = middleX - middleX * cos + (y - middleY) * sin;
    let fromY = middleY + middleX * sin + (y - middleY) * cos;
    for (let x = 0; x < width; x += 1, fromX += cos, fromY -= sin) {
      const [left, top] = [Math.floor(fromX), Math.floor(fromY)];
      if (left < 0 || top < 0 || left >= width - 1 || top >= height - 1) continue;
      const at = top * width + left;
      const [right, down] = [fromX - left, fromY - top];
      const above = mix(pixels[at], pixels[at + 1], right);
      const below = mix(pixels[at + width], pixels[at + width + 1], right);
      out[y * width + x] = Math.round(mix(above, below, down));
    }
  }
  return { width, height, pixels: out };
}

function mix(one = WHITE, other = WHITE, share: number): number {
  return one + (other - one) * share;
}
