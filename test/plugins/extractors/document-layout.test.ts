/**
 * Owns the proof that the layout of a document is kept in its text: lines, cells, headings and pages, blanks and all.
 * It must never make white space equal: that is what it is about.
 */
import t from 'tap';
import { ZipArchive } from '../../../plugins/extractors/shared/zip.js';
import { loadPlugin } from '../../../src/plugin/load.js';
import { PageTexts } from '../../../src/plugin/test/page-texts.js';
import { type OpenExtractor, readDocument } from '../../../src/pool/document-reader.js';
import { documentBounds } from '../../../src/pool/extraction.js';
import type { ExtractProgress } from '../../../src/pool/messages.js';
import { pluginFinder } from '../../../src/settings/plugins.js';
import { documentBytes } from '../../support/documents.js';
import { pdf, stream } from '../../support/hostile/pdf.js';
import { zip } from '../../support/zip.js';

t.setTimeout(300_000);

const BOM = '\uFEFF';

const extractors = await openAll();

async function openAll(): Promise<OpenExtractor[]> {
  const bounds = documentBounds;
  const opened = pluginFinder.builtIns('extractor').map(async (path) => {
    const plugin = await loadPlugin(path, 'extractor');
    const extractor = await plugin.open({ bounds, languages: ['eng'] });
    t.teardown(() => extractor.close());
    return { name: plugin.name, extractor, bounds };
  });
  return await Promise.all(opened);
}

interface Read {
  readonly text: string;
  readonly fileType: string;
  readonly pages: number;
  readonly progress: readonly ExtractProgress[];
}

/** @throws Error with the reason where it is refused. */
async function read(bytes: Uint8Array, filename: string): Promise<Read> {
  const pages = new PageTexts();
  const { result } = await readDocument(extractors, { bytes, filename }, pages);
  if (result.type === 'refused') throw new Error(result.reason);
  const { texts, progress, whole: text } = pages;
  return { text, fileType: result.fileType, pages: texts.length, progress };
}

t.test('the cells of a row of a docx are a line of their own, parted by tabs', async (t) => {
  const { text } = await read(documentBytes('office/testWORD_various.docx'), 'a.docx');
  const lines = text.split('\n');
  const first = lines.indexOf('Row 1 Col 1\tRow 1 Col 2\tRow 1 Col 3');
  t.not(first, -1, 'the line is there');
  t.equal(lines[first + 1], 'Row 2 Col 1\tRow 2 Col 2\tRow 2 Col 3');
});

const W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"';

/** A shipped document of Word with other paragraphs: no shipped one uses the styles of headings. */
function docxWith(paragraphs: readonly (readonly [style: string, text: string])[]): Buffer {
  const archive = new ZipArchive(documentBytes('office/testWORD_various.docx'), 100);
  const body = paragraphs.map(([style, text]) => {
    const properties = style === '' ? '' : `<w:pPr><w:pStyle w:val="${style}"/></w:pPr>`;
    return `<w:p>${properties}<w:r><w:t>${text}</w:t></w:r></w:p>`;
  });
  const heading = (level: number) =>
    `<w:style w:type="paragraph" w:styleId="Heading${level}"><w:name w:val="heading ${level}"/>` +
    `<w:pPr><w:outlineLvl w:val="${level - 1}"/></w:pPr></w:style>`;
  const parts: Readonly<Record<string, string>> = {
    'word/document.xml': `<w:document ${W}><w:body>${body.join('')}</w:body></w:document>`,
    'word/styles.xml': `<w:styles ${W}>${heading(1)}${heading(2)}</w:styles>`,
  };
  return zip(
    [...archive.names].map((name) => ({ name, bytes: parts[name] ?? archive.read(name) ?? '' })),
  );
}

t.test('headings of a docx are lines that say their level', async (t) => {
  const bytes = docxWith([
    ['Heading1', 'The lamp'],
    ['', 'It burns at night.'],
    ['Heading2', 'Its oil'],
    ['', 'It is kept below.'],
  ]);
  const { text, fileType } = await read(bytes, 'a.docx');
  t.match(fileType, /wordprocessingml/);
  t.match(text, '# The lamp\n\nIt burns at night.\n\n## Its oil\n\nIt is kept below.');
  const headings = text.split('\n').filter((line) => line.startsWith('#'));
  t.same(headings, ['# The lamp', '## Its oil']);
});

t.test('the mark of the byte order is no part of the text', async (t) => {
  const script = await read(documentBytes('text/BOM.js'), 'BOM.js');
  t.ok(script.text.startsWith('/* There is a BOM'), script.text);
  const words = 'Über den Dächern\n\tist es still.\n';
  const marked = new Uint8Array(Buffer.from(BOM + words));
  t.same([...marked.subarray(0, 3)], [0xef, 0xbb, 0xbf]);
  for (const name of ['a.txt', 'a.md', 'upload']) {
    const { text } = await read(marked, name);
    t.notOk(text.includes(BOM), name);
    t.equal(text.trimEnd(), words.trimEnd(), name);
  }
});

/** Pages with words, and pages that are the picture alone; null stands for the picture. */
function mixedPdf(pages: readonly (string | null)[]): Buffer {
  const [font, image, first] = [3, 4, 5];
  const jpeg = '/Type/XObject/Subtype/Image/Width 320/Height 180/ColorSpace/DeviceRGB';
  const objects: (string | Buffer)[] = [];
  pages.forEach((words, at) => {
    const resources =
      words === null ? `/XObject<</Picture ${image} 0 R>>` : `/Font<</F ${font} 0 R>>`;
    // The picture is as wide as a page of A4 without its margins.
    const drawn =
      words === null
        ? 'q 560 0 0 315 17 260 cm /Picture Do Q'
        : `BT /F 24 Tf 72 720 Td (${words}) Tj ET`;
    const contents = first + 2 * at + 1;
    objects.push(
      `<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources<<${resources}>>/Contents ${contents} 0 R>>`,
      stream('', drawn),
    );
  });
  const kids = pages.map((_, at) => `${first + 2 * at} 0 R`).join(' ');
  return pdf([
    '<</Type/Catalog/Pages 2 0 R>>',
    `<</Type/Pages/Kids[${kids}]/Count ${pages.length}>>`,
    '<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>',
    stream(
      `${jpeg}/BitsPerComponent 8/Filter/DCTDecode`,
      Buffer.from(documentBytes('pictures/simple.jpg')),
    ),
    ...objects,
  ]);
}

t.test('pages of a PDF that are text and pages that are pictures keep their order', async (t) => {
  const bytes = mixedPdf(['first page of words', null, 'third page of words', null]);
  const { text, fileType, pages, progress } = await read(bytes, 'mixed.pdf');
  t.equal(fileType, 'application/pdf');
  t.equal(pages, 4);
  const [first, second, third, fourth, ...more] = text.split('\f');
  t.same(more, []);
  t.equal(first?.trim(), 'first page of words');
  t.match(second, 'Tesseract.js');
  t.notMatch(second, 'page of words');
  t.equal(third?.trim(), 'third page of words');
  t.match(fourth, 'Tesseract.js');
  t.notMatch(fourth, 'page of words');
  t.same(
    progress,
    [1, 2, 3, 4].map((page) => ({ page, pages: 4 })),
  );
});
