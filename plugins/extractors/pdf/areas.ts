/**
 * Owns the question which parts of a page are pictures that hold more than the page's own text says.
 * It must never look at a pixel: boxes of pictures and characters decide.
 */

/** In points, `top` above `bottom`. */
export interface Box {
  readonly left: number;
  readonly right: number;
  readonly bottom: number;
  readonly top: number;
}

/** Scans come in strips and tiles that touch, or nearly so. */
const NEAR = 3;
/** A smaller picture is a logo, a rule or a bullet. */
const WIDTH_MIN = 72;
const HEIGHT_MIN = 18;
const AREA_MIN = 5_000;
/** A page in small print has a character on 100 square points, one in large print on 400. */
const AREA_OF_CHARACTER = 600;
/** A page of more pictures is one picture. */
const BOXES_MAX = 400;

/**
 * Where text is to be looked for: pictures that the characters on them do not account for.
 * @param charactersOf asked only where a picture is large enough, since to find them takes as long as the text.
 */
export function unreadAreas(
  pictures: readonly Box[],
  charactersOf: () => readonly Box[],
  page: Box,
): Box[] {
  const inside = pictures.map((box) => clip(box, page)).filter((box) => areaOf(box) > 0);
  const large = (inside.length > BOXES_MAX ? [page] : join(inside)).filter(isLarge);
  if (large.length === 0) return [];
  const characters = charactersOf();
  return large.filter((box) => !isRead(box, characters));
}

function isLarge(box: Box): boolean {
  return (
    box.right - box.left >= WIDTH_MIN &&
    box.top - box.bottom >= HEIGHT_MIN &&
    areaOf(box) >= AREA_MIN
  );
}

function isRead(box: Box, characters: readonly Box[]): boolean {
  let within = 0;
  for (const character of characters) if (holds(box, character)) within += 1;
  return within * AREA_OF_CHARACTER > areaOf(box);
}

/** By its centre. */
export function holds(box: Box, { left, right, bottom, top }: Box): boolean {
  const [x, y] = [(left + right) / 2, (bottom + top) / 2];
  return x >= box.left && x <= box.right && y >= box.bottom && y <= box.top;
}

/** Boxes that touch become one, until none do. */
function join(boxes: readonly Box[]): Box[] {
  const joined: Box[] = [];
  for (let box of boxes) {
    for (let at = 0; at < joined.length; at += 1) {
      const other = joined[at];
      if (other === undefined || !touch(box, other)) continue;
      box = around(box, other);
      joined.splice(at, 1);
      at = -1;
    }
    joined.push(box);
  }
  return joined;
}

function touch(a: Box, b: Box): boolean {
  return (
    a.left <= b.right + NEAR &&
    b.left <= a.right + NEAR &&
    a.bottom <= b.top + NEAR &&
    b.bottom <= a.top + NEAR
  );
}

/** The box that holds both. */
export function around(a: Box, b: Box): Box {
  return {
    left: Math.min(a.left, b.left),
    right: Math.max(a.right, b.right),
    bottom: Math.min(a.bottom, b.bottom),
    top: Math.max(a.top, b.top),
  };
}

function clip(box: Box, page: Box): Box {
  return {
    left: Math.max(box.left, page.left),
    right: Math.min(box.right, page.right),
    bottom: Math.max(box.bottom, page.bottom),
    top: Math.min(box.top, page.top),
  };
}

export function areaOf({ left, right, bottom, top }: Box): number {
  return Math.max(0, right - left) * Math.max(0, top - bottom);
}
