/**
 * Owns the question which words of a document are found, and in which order, beside other programs for the same work.
 * It must never count words that a program adds itself, such as numbered names of sheets and field codes.
 */
import { spawnSync } from 'node:child_process';
import { checkOf } from './support/check.js';
import { documentPath, hasProgram } from './support/documents.js';
import { hasProc } from './support/processes.js';
import type { Line, OpenQuestion, Question, Sample, Side } from './support/question.js';
import { ReadingProcess } from './support/reading.js';
import { compareWords } from './support/words.js';

interface Comparison {
  readonly format: string;
  readonly documents: readonly string[];
  readonly program: string;
  readonly args: (path: string) => readonly string[];
}

const comparisons: readonly Comparison[] = [
  {
    format: 'pdf',
    documents: ['text.pdf', 'tagged.pdf', 'publication15.pdf'],
    program: 'pdftotext',
    args: (path) => [path, '-'],
  },
  {
    format: 'doc',
    documents: ['office/testWORD.doc', 'office/testWORD_numbered_list.doc'],
    program: 'antiword',
    args: (path) => ['-m', 'UTF-8.txt', path],
  },
  {
    format: 'doc',
    documents: ['office/testWORD.doc', 'office/testWORD_numbered_list.doc'],
    program: 'catdoc',
    args: (path) => ['-w', '-d', 'utf-8', path],
  },
  {
    format: 'xls',
    documents: ['office/testEXCEL.xls'],
    program: 'xls2csv',
    args: (path) => ['-d', 'utf-8', path],
  },
  {
    format: 'xlsx',
    documents: ['office/testEXCEL.xlsx', 'office/testEXCEL-formats.xlsx'],
    program: 'xlsx2csv',
    args: (path) => ['-a', '-p', '', path],
  },
  {
    format: 'ppt',
    documents: ['office/testPPT.ppt'],
    program: 'catppt',
    args: (path) => ['-d', 'utf-8', path],
  },
  {
    format: 'pictures',
    documents: ['pictures/testocr.png', 'pictures/simple.png', 'pictures/testOCR.jpg', 'crom.png'],
    program: 'tesseract',
    args: (path) => [path, '-', '-l', 'eng'],
  },
];

export const question: Question = {
  name: 'words-found',
  title: "Words of other programs' readings that preface finds",
  async open({ tiny }): Promise<OpenQuestion | { skipped: string }> {
    if (!hasProc) return { skipped: 'it needs /proc' };
    const asked = comparisons.filter(({ program }) => hasProgram(program));
    if (asked.length === 0) return { skipped: 'no program to compare with is installed' };
    const service = await ReadingProcess.start({ reader: 'service', processes: 1 });
    const missing = comparisons.filter((each) => !asked.includes(each));
    return {
      sides: asked.map((comparison): Side => {
        return {
          name: nameOf(comparison),
          roundsMax: 1,
          measure: () =>
            compare(
              service,
              tiny ? { ...comparison, documents: comparison.documents.slice(0, 1) } : comparison,
            ),
        };
      }),
      lines: asked.map(lineOf),
      notes: [
        'catdoc and antiword print codes of fields and addresses of links, which no reader of the document sees.',
        'xls2csv and xlsx2csv print numbers and days as they are stored, preface as the sheet shows them; catppt prints names of masters.',
        ...missing.map(({ program }) => `${program} is not installed.`),
      ],
      close: () => service.close(),
    };
  },
};

function nameOf({ format, program }: Comparison): string {
  return `${format} beside ${program}`;
}

function lineOf(comparison: Comparison): Line {
  return {
    label: nameOf(comparison),
    subject: nameOf(comparison),
    unit: '% found',
    floors: [],
    judged: 'value',
    better: 'more',
    must: null,
    goal: null,
  };
}

async function compare(
  service: ReadingProcess,
  { documents, program, args }: Comparison,
): Promise<Sample> {
  const paths = documents.map(documentPath);
  const done = await service.read({ paths, languages: ['eng'] });
  const wanted = paths.map((path) => outputOf(program, args(path)));
  const compared = compareWords(done.texts.join(' '), wanted.join(' '));
  return {
    value: 100 * compared.found,
    errors: done.failures.length,
    check: checkOf(done.texts),
    beside: {
      '% of phrases in the same order': 100 * compared.ordered,
      '% of the words here that the other finds': 100 * compared.precise,
    },
  };
}

function outputOf(program: string, args: readonly string[]): string {
  const { stdout, status } = spawnSync(program, args, { encoding: 'utf8', maxBuffer: 2 ** 28 });
  if (status !== 0) throw new Error(`${program} ${args.join(' ')} ended with ${status}`);
  return stdout;
}
