/**
 * Owns the text of workbooks of Excel 2007 and later: a page a sheet, what the cells show.
 * It must never compute a formula or follow a link to another workbook.
 */
import type { DocumentPage, ExtractionBounds } from 'preface/plugin';
import { readXml } from '../markup/walk.js';
import { documentPlugin } from '../shared/plugin.js';
import { refusal } from '../shared/refusal.js';
import { Grid, sheetPage } from './grid.js';
import { claimPackage, OfficePackage, type PackageKind } from './package.js';
import { readFormats, readSharedStrings, readWorkbook } from './xlsx-parts.js';
import { SheetBody, type SheetContext } from './xlsx-sheet.js';

const kind: PackageKind = {
  fileType: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
  mainPart: /spreadsheetml\.(?:sheet|template)\.main|ms-excel\.(?:sheet|template)\.macro/,
  names: /\.xl[st][xm]?$/i,
};

export default documentPlugin({
  name: 'extractor-xlsx',
  accepts: (document, bounds) => claimPackage(document, kind, bounds),
  pages: ({ bytes }, bounds) => pagesOf(bytes, bounds),
});

function* pagesOf(bytes: Uint8Array, bounds: ExtractionBounds): Generator<DocumentPage> {
  const office = new OfficePackage(bytes, bounds);
  const main = office.main();
  const relations = office.relations(main.name);
  const partOf = (type: string) =>
    office.part([...relations.values()].find((each) => each.type === type)?.part);
  const { sheets, date1904 } = readWorkbook(main.bytes, bounds.nestingMax);
  if (sheets.length > bounds.pagesMax) {
    throw refusal('bound', `it has more than ${bounds.pagesMax} sheets`);
  }
  const strings = partOf('sharedStrings');
  const styles = partOf('styles');
  const context: SheetContext = {
    strings:
      strings === null ? [] : readSharedStrings(strings, bounds.textLengthMax, bounds.nestingMax),
    formats: styles === null ? [] : readFormats(styles, bounds.nestingMax),
    date1904,
  };
  const title = office.title();
  for (const { name, relation } of sheets) {
    const sheet = relations.get(relation);
    const part = sheet?.type === 'worksheet' ? office.part(sheet.part) : null;
    const grid = new Grid(bounds.textLengthMax);
    if (part !== null) readXml(part, new SheetBody(grid, context), bounds.nestingMax);
    yield { text: sheetPage(name, grid), pages: sheets.length, title };
  }
}
