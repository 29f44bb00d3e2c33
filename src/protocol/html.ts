/**
 * Owns the making of HTML: a template whose values are text unless they are HTML already.
 * It must never let a value through unescaped.
 */

/** The template below makes them; elsewhere only what renders documents of this package. */
export class Html {
  constructor(readonly text: string) {}
}

export type Part = string | number | null | Html | readonly Html[];

export function html(pieces: TemplateStringsArray, ...parts: readonly Part[]): Html {
  let text = pieces[0] ?? '';
  for (const [i, part] of parts.entries()) text += written(part) + (pieces[i + 1] ?? '');
  return new Html(text);
}

/** Text as the descriptions are written: `code`, and an empty line between paragraphs. */
export function prose(text: string): Html {
  return new Html(
    escaped(text)
      .replaceAll(/`([^`]+)`/g, '<code>$1</code>')
      .replaceAll('\n\n', '<br>'),
  );
}

function written(part: Part): string {
  if (part === null) return '';
  if (part instanceof Html) return part.text;
  if (typeof part === 'object') return part.map(({ text }) => text).join('\n');
  return escaped(String(part));
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? '');
}
