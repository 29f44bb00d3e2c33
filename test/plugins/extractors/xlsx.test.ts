/** Owns the proof that workbooks of Excel are read as a person would read them. */
import t from 'tap';
import plugin from '../../../plugins/extractors/office/xlsx.js';
import { extractorSuite } from '../../../src/plugin/test/extractor.js';
import { openForTest, readAll } from '../../support/documents.js';
import { officePackage, relation } from '../../support/zip.js';

const document = (name: string) =>
  new URL(`../../../../test/documents/office/${name}`, import.meta.url);

const fileType = 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet';

extractorSuite(t, {
  plugin,
  documents: [
    {
      bytes: document('testEXCEL.xlsx'),
      filename: 'testEXCEL.xlsx',
      fileType,
      title: 'Simple Excel document',
      pages: 3,
      words: ['# Feuil1', 'Number\tSquare', '1\t1', '15\t225', 'Microsoft Excel X for Mac'],
      reaches: ['unpackedBytesMax', 'unpackRatioMax', 'archiveEntriesMax', 'nestingMax'],
    },
    {
      bytes: document('testEXCEL-formats.xlsx'),
      filename: 'testEXCEL-formats.xlsx',
      fileType,
      words: [
        '1,599.99\t-1,599.99',
        '($1,599.99)',
        '1.98E+08',
        '2.50%',
        '2 1/2',
        '6:15 PM',
        '10/3/09',
        '17-May-07',
      ],
    },
  ],
});

const styles =
  '<styleSheet><numFmts><numFmt numFmtId="170" formatCode="General&quot; kg&quot;"/><numFmt numFmtId="171" formatCode="0.00E+00"/></numFmts>' +
  '<cellXfs><xf numFmtId="0"/><xf numFmtId="49"/><xf numFmtId="170"/><xf numFmtId="171"/></cellXfs></styleSheet>';

/** A workbook of one sheet; each cell is its style and its value. */
function workbook(cells: readonly (readonly [style: number, value: string])[]): Buffer {
  const row = cells.map(([style, value]) => `<c s="${style}"><v>${value}</v></c>`).join('');
  return officePackage(
    'spreadsheetml.sheet',
    '<workbook><sheets><sheet name="one" id="s"/></sheets></workbook>',
    [relation('s', 'worksheet', 'sheet.xml'), relation('t', 'styles', 'styles.xml')],
    [
      {
        name: 'sheet.xml',
        bytes: `<worksheet><sheetData><row>${row}</row></sheetData></worksheet>`,
      },
      { name: 'styles.xml', bytes: styles },
    ],
  );
}

t.test('a number keeps its digits unless its cell has a format that rounds', async (t) => {
  const extractor = await openForTest(plugin);
  t.teardown(() => extractor.close());
  const bytes = workbook([
    [0, '4006381333931'],
    [0, '123456789012.25'],
    [0, '0.30000000000000004'],
    [0, '1.5E-7'],
    [0, '1E+21'],
    [1, '4006381333931'],
    [2, '4006381333931'],
    [2, '-0.125'],
    [3, '4006381333931'],
  ]);
  const [page] = await readAll(extractor, bytes);
  t.equal(
    page?.text,
    [
      '# one\n\n4006381333931',
      '123456789012.25',
      '0.3',
      '1.5E-07',
      '1E+21',
      '4006381333931',
      '4006381333931 kg',
      '-0.125 kg',
      '4.01E+12',
    ].join('\t'),
  );
});

t.test('strings of a beta of Excel 2007 are read, too', async (t) => {
  const extractor = await openForTest(plugin);
  t.teardown(() => extractor.close());
  const shared = (item: string) =>
    officePackage(
      'spreadsheetml.sheet',
      '<workbook><sheets><sheet name="one" id="s"/></sheets></workbook>',
      [relation('s', 'worksheet', 'sheet.xml'), relation('t', 'sharedStrings', 'strings.xml')],
      [
        {
          name: 'sheet.xml',
          bytes:
            '<worksheet><sheetData><row><c t="s"><v>0</v></c><c t="s"><v>1</v></c></row></sheetData></worksheet>',
        },
        {
          name: 'strings.xml',
          bytes: `<sst><${item}><t>Lorem</t></${item}><${item}><t>ipsum</t></${item}></sst>`,
        },
      ],
    );
  for (const item of ['si', 'sstItem']) {
    const [page] = await readAll(extractor, shared(item));
    t.equal(page?.text, '# one\n\nLorem\tipsum', item);
  }
});
