/**
 * Owns the names of text files: which ending stands for which media type.
 * It must never look into a file.
 */

const types = {
  'text/plain': 'txt text log conf cfg ini env properties rst adoc asc srt vtt',
  'text/markdown': 'md markdown mdown',
  'text/csv': 'csv',
  'text/tab-separated-values': 'tsv tab',
  'application/json': 'json jsonl ndjson geojson ipynb webmanifest map',
  'application/yaml': 'yaml yml',
  'application/toml': 'toml',
  'application/xml': 'xml xsd xsl xslt rss atom plist',
  'text/css': 'css scss sass less',
  'text/javascript': 'js mjs cjs jsx',
  'text/x-typescript': 'ts tsx mts cts',
  'text/x-python': 'py py3 pyi pyw',
  'text/x-go': 'go',
  'text/x-c': 'c h',
  'text/x-c++': 'cpp cxx cc hpp hh hxx',
  'text/x-csharp': 'cs',
  'text/x-java': 'java',
  'text/x-kotlin': 'kt kts',
  'text/x-rust': 'rs',
  'text/x-swift': 'swift',
  'text/x-ruby': 'rb',
  'text/x-perl': 'pl pm',
  'text/x-lua': 'lua',
  'text/x-php': 'php phtml',
  'text/x-asp': 'asp aspx',
  'text/x-jsp': 'jsp jspx',
  'text/x-vue': 'vue svelte',
  'text/x-sh': 'sh bash zsh fish bat cmd ps1',
  'text/x-sql': 'sql',
  'text/x-r': 'r',
  'text/x-scala': 'scala sbt',
  'text/x-makefile': 'mk makefile dockerfile gradle cmake',
  'text/x-tex': 'tex bib',
  'text/x-diff': 'diff patch',
} as const;

const typeByEnding = new Map<string, string>(
  Object.entries(types).flatMap(([type, endings]) =>
    endings.split(' ').map((ending): [string, string] => [ending, type]),
  ),
);

/** What the name says, in small letters: `py` of `a.PY`, `makefile` of `Makefile`. */
export function endingOf(filename: string): string {
  return filename.slice(filename.lastIndexOf('.') + 1).toLowerCase();
}

/** Undefined where the name says nothing. */
export function textTypeOf(filename: string): string | undefined {
  return typeByEnding.get(endingOf(filename));
}
