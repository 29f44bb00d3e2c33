/**
 * Owns the pages that an extractor gives, kept in memory for a test.
 * It must never be used where the file of a text is what is tested.
 */
import { toUSVString } from 'node:util';
import type { ExtractProgress } from '../../pool/messages.js';
import type { PageSink } from '../../pool/text-pieces.js';

export class PageTexts implements PageSink {
  readonly texts: string[] = [];
  readonly progress: ExtractProgress[] = [];

  async writePage(text: string, pages: number | null): Promise<void> {
    this.texts.push(toUSVString(text));
    this.progress.push({ page: this.texts.length, pages });
  }

  /** As it would be answered. */
  get whole(): string {
    return this.texts.join('\f');
  }
}
