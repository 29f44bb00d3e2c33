/**
 * Owns the reading of the project's documents: their list, sections, snippets and generated tables.
 * It must never judge their content.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../../..', import.meta.url));

/** Folders whose Markdown files are input of tests. */
const NOT_OURS = ['node_modules', 'dist', 'test/documents', '.git', '.tap'];

export interface Page {
  /** From the root of the repository. */
  readonly path: string;
  readonly text: string;
}

export interface Snippet {
  readonly language: string;
  readonly code: string;
}

export function pageOf(path: string): Page {
  return { path, text: readFileSync(join(root, path), 'utf8') };
}

/** Every Markdown file of the project. */
export function allPages(): Page[] {
  return pathsBelow('')
    .filter((path) => path.endsWith('.md'))
    .map(pageOf);
}

/** Folders that hold files, from the root of the repository. */
export function foldersBelow(folder: string): string[] {
  const paths = pathsBelow(folder).map((path) => path.slice(0, path.lastIndexOf('/')));
  return [...new Set(paths)].sort();
}

function pathsBelow(folder: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = relative(root, join(root, folder, entry.name));
    if (NOT_OURS.includes(path)) return [];
    return entry.isDirectory() ? pathsBelow(path) : [path];
  });
}

export function snippetsOf(text: string): Snippet[] {
  return [...text.matchAll(/^ *```(\w*)\n([\s\S]*?)^ *```$/gm)].map(
    ([, language = '', code = '']) => ({ language, code }),
  );
}

/** From a heading to the next one of its level or above; empty where there is none. */
export function sectionOf(text: string, heading: string): string {
  const level = /^#+/.exec(heading)?.[0].length ?? 0;
  const start = text.indexOf(`\n${heading}\n`);
  if (start < 0) return '';
  const rest = text.slice(start + heading.length + 2);
  const end = new RegExp(`^#{1,${level}} `, 'm').exec(withoutCode(rest));
  return end === null ? rest : rest.slice(0, end.index);
}

/** The same text with spaces in place of snippets, because a shell comment looks like a heading. */
export function withoutCode(text: string): string {
  return text.replaceAll(/^ *```[\s\S]*?^ *```$/gm, (code) => code.replaceAll(/[^\n]/g, ' '));
}

/** The anchor of a heading, as GitHub makes it. */
export function anchorsOf(text: string): Set<string> {
  return new Set(
    [...withoutCode(text).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}\- _]/gu, '')
        .replaceAll(' ', '-'),
    ),
  );
}

/** The lines between `<!-- name…-->` and `<!-- /name -->`; with `UPDATE_README` they become `expected`. */
export function generatedTable(path: string, name: string, expected: string): string {
  const { text } = pageOf(path);
  const open = new RegExp(`<!-- ${name}[^>]*-->\n`).exec(text);
  const end = text.indexOf(`<!-- /${name} -->`);
  if (open === null || end < 0) throw new Error(`${path} has no block ${name}`);
  const start = open.index + open[0].length;
  if (!process.env.UPDATE_README) return text.slice(start, end).trimEnd();
  writeFileSync(join(root, path), `${text.slice(0, start)}${expected}\n${text.slice(end)}`);
  return expected;
}

export function exists(path: string): boolean {
  return existsSync(join(root, path));
}
