/**
 * Owns the output of the command line: results on standard output, notes on standard error, tables as text or JSON.
 * It must never know what it prints.
 */

export const print = (line: string) => process.stdout.write(`${line}\n`);
export const note = (line: string) => process.stderr.write(`${line}\n`);

/** Who reads only the first lines, as `head` does, has had enough: that is no fault of the command. */
export function letReadersLeave(): void {
  process.stdout.on('error', (fault: NodeJS.ErrnoException) => {
    if (fault.code !== 'EPIPE') throw fault;
  });
}

/** Columns for people, JSON for programs. */
export function printRows(
  rows: readonly Record<string, string>[],
  flags: { readonly json?: unknown },
  none: string,
): void {
  if (flags.json) return void print(JSON.stringify(rows, null, 2));
  const [first] = rows;
  if (first === undefined) return void note(none);
  const names = Object.keys(first);
  const lines = [Object.fromEntries(names.map((name) => [name, name.toUpperCase()])), ...rows];
  const widths = names.map((name) => Math.max(...lines.map((line) => (line[name] ?? '').length)));
  for (const line of lines) {
    print(
      names
        .map((name, i) => (line[name] ?? '').padEnd(widths[i] ?? 0))
        .join('  ')
        .trimEnd(),
    );
  }
}
