/**
 * Owns the question how fast the text of PDF is read, beside pdf2json alone and the program pdftotext.
 * It must never count a page whose text one side did not read.
 */
import { statSync } from 'node:fs';
import { checkOf } from './support/check.js';
import { documentPath, hasProgram, shellCpuSeconds } from './support/documents.js';
import { hasProc } from './support/processes.js';
import type { Curves, Line, OpenQuestion, Question, Sample, Side } from './support/question.js';
import { ReadingProcess } from './support/reading.js';

/** Readings of each document in one measurement, since short documents take a few milliseconds. */
const documents = [
  { name: 'text.pdf', pages: 2, times: 12 },
  { name: 'tagged.pdf', pages: 2, times: 12 },
  { name: 'publication15.pdf', pages: 67, times: 1 },
] as const;
type Document = (typeof documents)[number];

const readers = ['preface', 'pdf2json', 'pdftotext'] as const;

export const question: Question = {
  name: 'pdf-text',
  title: 'Text of PDF, pages a second of CPU',
  async open({ tiny }): Promise<OpenQuestion | { skipped: string }> {
    if (!hasProc) return { skipped: 'it needs /proc' };
    const programs = hasProgram('pdftotext') && hasProgram('bash') ? ['pdftotext'] : [];
    const service = await ReadingProcess.start({ reader: 'service', processes: 1 });
    const library = await ReadingProcess.start({ reader: 'pdf2json', processes: 1 });
    const read = documents.slice(0, tiny ? 1 : documents.length);
    const sides = read.flatMap((document): Side[] => [
      { name: sideName('preface', document), measure: () => measureIn(service, document, tiny) },
      { name: sideName('pdf2json', document), measure: () => measureIn(library, document, tiny) },
      ...programs.map((name) => ({
        name: sideName(name, document),
        measure: () => measureProgram(document, tiny),
      })),
    ]);
    return {
      sides,
      lines: read.flatMap((document) => linesOf(document, programs)),
      ...(read.length > 1 && { curves: curvesOf(['preface', 'pdf2json', ...programs]) }),
      notes: [
        'preface: the whole extraction, from the document file to the text file, in its own process.',
        'Its first document has compiled the program by then, as pdf2json has its own.',
      ],
      close: async () => {
        await Promise.all([service.close(), library.close()]);
      },
    };
  },
};

function sideName(reader: string, { name }: Document): string {
  return `${reader}, ${name}`;
}

function linesOf(document: Document, programs: readonly string[]): Line[] {
  const { name, pages } = document;
  const size = `${pages} pages, ${Math.round(statSync(documentPath(name)).size / 1000)} kB`;
  const line = (beside: string, must: number | null, goal: number | null): Line => ({
    label: `${size}, beside ${beside}`,
    subject: sideName('preface', document),
    unit: 'pages / CPU s',
    floors: [sideName(beside, document)],
    judged: 'ratio',
    better: 'more',
    must,
    goal,
  });
  return [line('pdf2json', 0.95, 2), ...programs.map((program) => line(program, null, null))];
}

function curvesOf(names: readonly string[]): Curves {
  const series = readers
    .filter((name) => names.includes(name))
    .map((name) => ({
      name,
      points: documents
        .map((document) => ({
          x: statSync(documentPath(document.name)).size / 1000,
          side: sideName(name, document),
        }))
        .sort((a, b) => a.x - b.x),
    }));
  return { across: 'size of the file, kB', unit: 'pages / CPU s', series };
}

async function measureIn(
  reader: ReadingProcess,
  { name, pages, times }: Document,
  tiny: boolean,
): Promise<Sample> {
  const paths = Array.from({ length: tiny ? 1 : times }, () => documentPath(name));
  const done = await reader.read({ paths, languages: [] });
  const isWhole = done.pages === pages * paths.length && done.failures.length === 0;
  return {
    value: done.pages / done.cpuS,
    errors: isWhole ? 0 : 1,
    check: checkOf(done.texts[0]),
    beside: { 'pages/s by the clock': done.pages / (done.ms / 1000), 'MB at most': done.peakMb },
  };
}

async function measureProgram({ name, pages, times }: Document, tiny: boolean): Promise<Sample> {
  const paths = Array.from({ length: tiny ? 1 : times }, () => documentPath(name));
  const command = 'for f in "$@"; do pdftotext "$f" /dev/null || exit 1; done';
  const cpuS = shellCpuSeconds(command, paths);
  // The clock of the shell has three digits.
  return { value: (pages * paths.length) / Math.max(cpuS, 0.001), errors: 0, check: name };
}
