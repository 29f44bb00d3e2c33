/**
 * Owns the door to pdfium's program: compiled once, and an instance whose memory is set back after each document.
 * It must never reuse an instance after a failure, or with memory that differs from its start.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type * as PdfiumPackage from '@hyzyla/pdfium';

/** Members of the module that the package's types omit. */
interface Unlisted {
  _FPDF_GetMetaText(document: number, tag: number, buffer: number, bytes: number): number;
  _FPDF_GetFormType(document: number): number;
  _FPDFPage_Flatten(page: number, usage: number): number;
  _FPDFText_GetTextObject(text: number, index: number): number;
  _FPDFTextObj_GetFont(object: number): number;
  _FPDFFont_GetBaseFontName(font: number, buffer: number, bytes: number): number;
  _FPDFTextObj_SetTextRenderMode(object: number, mode: number): number;
  _FPDFFormObj_CountObjects(object: number): number;
  _FPDFFormObj_GetObject(object: number, index: number): number;
  _FPDFPage_GetRotation(page: number): number;
  _FPDFPage_SetRotation(page: number, quarters: number): void;
  _FPDF_GetPageBoundingBox(page: number, rect: number): number;
  _FPDF_PageToDevice(
    page: number,
    left: number,
    top: number,
    width: number,
    height: number,
    rotate: number,
    x: number,
    y: number,
    deviceX: number,
    deviceY: number,
  ): number;
  _FPDFPage_GetAnnotCount(page: number): number;
  _FPDFPage_GetAnnot(page: number, index: number): number;
  _FPDFPage_CloseAnnot(annotation: number): void;
  _FPDFAnnot_GetSubtype(annotation: number): number;
  _FPDFAnnot_GetStringValue(annotation: number, key: number, buffer: number, bytes: number): number;
  _FPDFAnnot_GetFlags(annotation: number): number;
  _FPDFAnnot_GetRect(annotation: number, rect: number): number;
  _FPDFDOC_InitFormFillEnvironment(document: number, viewer: number): number;
  _FPDFAnnot_GetFormFieldType(form: number, annotation: number): number;
  _FPDFAnnot_GetFormFieldFlags(form: number, annotation: number): number;
  _FPDFAnnot_GetFormFieldName(
    form: number,
    annotation: number,
    buffer: number,
    bytes: number,
  ): number;
  _FPDFAnnot_GetFormFieldAlternateName(
    form: number,
    annotation: number,
    buffer: number,
    bytes: number,
  ): number;
  _FPDFAnnot_GetFormFieldValue(
    form: number,
    annotation: number,
    buffer: number,
    bytes: number,
  ): number;
  _FPDFAnnot_GetOptionCount(form: number, annotation: number): number;
  _FPDFAnnot_IsOptionSelected(form: number, annotation: number, index: number): number;
  _FPDFAnnot_GetOptionLabel(
    form: number,
    annotation: number,
    index: number,
    buffer: number,
    bytes: number,
  ): number;
}
/** What is called for each character and each object, without the checks that the package puts around each call. */
interface Bare {
  FPDFText_GetUnicode(text: number, index: number): number;
  FPDFText_IsGenerated(text: number, index: number): number;
  FPDFText_HasUnicodeMapError(text: number, index: number): number;
  FPDFText_GetCharAngle(text: number, index: number): number;
  FPDFText_GetLooseCharBox(text: number, index: number, rect: number): number;
  FPDFPath_CountSegments(object: number): number;
  FPDFPath_GetDrawMode(object: number, fill: number, stroke: number): number;
  FPDFPath_GetPathSegment(object: number, index: number): number;
  FPDFPathSegment_GetType(segment: number): number;
  FPDFPathSegment_GetPoint(segment: number, x: number, y: number): number;
  FPDFPageObj_GetMatrix(object: number, matrix: number): number;
  FPDFPageObj_GetBounds(
    object: number,
    left: number,
    bottom: number,
    right: number,
    top: number,
  ): number;
}
type Module = Awaited<ReturnType<typeof PdfiumPackage.PDFiumModule>>;
export type Pdfium = Module & Unlisted & { readonly wasmExports: Module['wasmExports'] & Bare };

/** Members of the runtime that this language level's types omit. */
interface WebAssemblyRuntime {
  compile(bytes: Uint8Array): Promise<object>;
  instantiate(program: object, imports: object): Promise<object>;
}
const { WebAssembly: wasm } = globalThis as unknown as { WebAssembly: WebAssemblyRuntime };

export interface Instance {
  readonly pdfium: Pdfium;
  /** Its memory after the library has started, up to the last byte that is not zero. */
  readonly start: Uint8Array;
}

/** Resetting more than this is slower than a new instance; grown memory never shrinks. */
const KEPT_BYTES_MAX = 32 * 1024 * 1024;

let program: Promise<object> | undefined;
/** A process reads one document at a time. */
let idle: Instance | null = null;

export async function takeInstance(): Promise<Instance> {
  const kept = idle;
  idle = null;
  return kept ?? (await newInstance());
}

/** To be called for an instance in which every call has returned. */
export function putBack(instance: Instance): void {
  const { pdfium, start } = instance;
  const memory = pdfium.HEAPU8;
  if (idle !== null || memory.length > KEPT_BYTES_MAX) return;
  memory.set(start);
  memory.fill(0, start.length, Math.max(start.length, endOfUsed(memory)));
  idle = instance;
}

async function newInstance(): Promise<Instance> {
  program ??= wasm.compile(
    readFileSync(createRequire(import.meta.url).resolve('@hyzyla/pdfium/pdfium.wasm')),
  );
  const compiled = await program;
  // Loaded by the first PDF: each reader of documents starts with this file.
  const { PDFiumModule } = await import('@hyzyla/pdfium');
  const pdfium = (await PDFiumModule({
    instantiateWasm: (imports: object, receive: (instance: object) => void) => {
      void wasm.instantiate(compiled, imports).then(receive);
      return {};
    },
  } as unknown as Parameters<typeof PDFiumModule>[0])) as Pdfium;
  pdfium._FPDF_InitLibraryWithConfig({ version: 2 });
  return { pdfium, start: usedOf(pdfium.HEAPU8) };
}

function usedOf(memory: Uint8Array): Uint8Array {
  let end = endOfUsed(memory);
  while (end > 0 && memory[end - 1] === 0) end -= 1;
  return memory.slice(0, end);
}

const ZEROS = new Uint8Array(256 * 1024);

/** What lies behind is zero. To look takes less than to write, and a page that nobody writes to takes no memory. */
function endOfUsed(memory: Uint8Array): number {
  let end = memory.length;
  while (end > 0) {
    const start = Math.max(0, end - ZEROS.length);
    if (Buffer.compare(memory.subarray(start, end), ZEROS.subarray(0, end - start)) !== 0) break;
    end = start;
  }
  return end;
}
