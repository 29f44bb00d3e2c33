/**
 * Owns what is filled into the form of a document.
 * It must never let a form act: nothing that it would do on opening or closing is asked for, and no viewer stands behind it.
 */
import { annotationsOf, entryOf, toldBox, toldText } from './annotations.js';
import type { Box } from './areas.js';
import type { Pdfium } from './instance.js';

export interface FilledField {
  /** What a viewer calls it, else its own name. */
  readonly name: string;
  readonly value: string;
}

type Told = (form: number, annotation: number, buffer: number, bytes: number) => number;

/** Of the structure of calls into a viewer, all of which are empty. */
const VIEWER_BYTES = 256;
const VIEWER_VERSION = 2;
const [CHECK_BOX, RADIO_BUTTON, COMBO_BOX, LIST_BOX, TEXT] = [2, 3, 4, 5, 6];
/** Not drawn, whatever is in them: what a form reckons with. */
const [HIDDEN, NO_VIEW] = [2, 32];
/** A flag: viewers show the text of the field as dots. */
const PASSWORD = 1 << 13;
const OPTIONS_MAX = 1_000;
/** Of a page. */
const CHECKED_MAX = 1_000;

export class PdfForm {
  private constructor(
    private readonly pdfium: Pdfium,
    private readonly form: number,
  ) {}

  /** Null where it cannot be opened. Its memory goes with the document's. */
  static open(pdfium: Pdfium, document: number): PdfForm | null {
    const viewer = pdfium.wasmExports.malloc(VIEWER_BYTES);
    if (viewer === 0) return null;
    pdfium.HEAPU8.fill(0, viewer, viewer + VIEWER_BYTES);
    new DataView(pdfium.HEAPU8.buffer).setInt32(viewer, VIEWER_VERSION, true);
    const form = pdfium._FPDFDOC_InitFormFillEnvironment(document, viewer);
    return form === 0 ? null : new PdfForm(pdfium, form);
  }

  /** Fields of a page in which something stands; to be asked before the page is flattened, which takes them away. */
  fieldsOf(page: number): FilledField[] {
    const fields: FilledField[] = [];
    for (const annotation of annotationsOf(this.pdfium, page)) {
      const value = this.#value(annotation);
      if (value !== '') fields.push({ name: this.#name(annotation), value });
    }
    return fields;
  }

  /** Places of the boxes and buttons of a page that are chosen; to be asked as early. */
  checkedOf(page: number): Box[] {
    const { pdfium, form } = this;
    const boxes: Box[] = [];
    for (const annotation of annotationsOf(pdfium, page)) {
      if (this.#isHidden(annotation)) continue;
      const type = pdfium._FPDFAnnot_GetFormFieldType(form, annotation);
      if (type !== CHECK_BOX && type !== RADIO_BUTTON) continue;
      if (!this.#isChosen(annotation)) continue;
      const box = toldBox(pdfium, (at) => pdfium._FPDFAnnot_GetRect(annotation, at));
      if (box !== null) boxes.push(box);
    }
    // Each is looked for among all characters of the page.
    return boxes.slice(0, CHECKED_MAX);
  }

  /** By the look that it has now: the library tells more only where a viewer has opened the page. */
  #isChosen(annotation: number): boolean {
    const look = entryOf(this.pdfium, annotation, 'AS');
    return look !== '' && look !== 'Off';
  }

  #isHidden(annotation: number): boolean {
    return (this.pdfium._FPDFAnnot_GetFlags(annotation) & (HIDDEN | NO_VIEW)) !== 0;
  }

  #value(annotation: number): string {
    const { pdfium, form } = this;
    if (this.#isHidden(annotation)) return '';
    const type = pdfium._FPDFAnnot_GetFormFieldType(form, annotation);
    if (type === COMBO_BOX || type === LIST_BOX) {
      const chosen = this.#chosen(annotation);
      if (chosen !== '') return chosen;
    } else if (type !== TEXT || this.#isPassword(annotation)) return '';
    return this.#said(pdfium._FPDFAnnot_GetFormFieldValue, annotation);
  }

  #isPassword(annotation: number): boolean {
    return (this.pdfium._FPDFAnnot_GetFormFieldFlags(this.form, annotation) & PASSWORD) !== 0;
  }

  /** As a viewer shows them, which may be other than what the form sends. */
  #chosen(annotation: number): string {
    const { pdfium, form } = this;
    const count = Math.min(pdfium._FPDFAnnot_GetOptionCount(form, annotation), OPTIONS_MAX);
    const labels: string[] = [];
    for (let index = 0; index < count; index += 1) {
      if (pdfium._FPDFAnnot_IsOptionSelected(form, annotation, index) !== 1) continue;
      const label = toldText(pdfium, (buffer, bytes) =>
        pdfium._FPDFAnnot_GetOptionLabel(form, annotation, index, buffer, bytes),
      );
      labels.push(label);
    }
    return labels.filter((label) => label !== '').join(', ');
  }

  #name(annotation: number): string {
    const shown = this.#said(this.pdfium._FPDFAnnot_GetFormFieldAlternateName, annotation);
    return shown === '' ? this.#said(this.pdfium._FPDFAnnot_GetFormFieldName, annotation) : shown;
  }

  #said(tell: Told, annotation: number): string {
    return toldText(this.pdfium, (buffer, bytes) => tell(this.form, annotation, buffer, bytes));
  }
}
