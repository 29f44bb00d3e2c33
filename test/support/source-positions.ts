/**
 * Owns where a position of a built file is in its source. A whole run has no maps in its processes: each would read those of all that
 * it loads, a third of a second of a core a file, for the few that fail.
 * It must never fail for want of a map: the position stays then as it is.
 */
import { readFileSync } from 'node:fs';
import { SourceMap } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Where the sources lie, with the built files in `dist`. */
const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
/** As stacks name it: by address, by path, or from the root on. */
const POSITION = /(?:file:\/\/)?[^\s()"']*?\bdist\/([^\s()"']+\.js):(\d+):(\d+)/g;

/** The same text with `path/of/source.ts:line:column` in place of each position of a built file. */
export function inSources(text: string): string {
  return text.replace(POSITION, (built, path: string, line: string, column: string) => {
    const file = join(ROOT, 'dist', path);
    const origin = originOf(file, Number(line), Number(column));
    if (origin === null) return built;
    const source = relative(ROOT, join(dirname(file), origin.fileName));
    return `${source}:${origin.lineNumber}:${origin.columnNumber}`;
  });
}

function originOf(file: string, line: number, column: number) {
  try {
    const map = new SourceMap(JSON.parse(readFileSync(`${file}.map`, 'utf8')));
    const origin = map.findOrigin(line, column);
    return 'fileName' in origin ? origin : null;
  } catch {
    return null;
  }
}
