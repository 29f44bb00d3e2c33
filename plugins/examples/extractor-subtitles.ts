/**
 * Owns an example: the text of a film's subtitles (SubRip), without numbers and times.
 * It must stay small enough to be read at once.
 */
import type { Extractor, ExtractorPlugin, SourceDocument } from 'preface/plugin';

const FILE_TYPE = 'application/x-subrip';
const HEAD_BYTES = 100;
const NUMBER_AND_TIMES = /^\uFEFF?\s*\d+\r?\n\d\d:\d\d:\d\d,\d{3} --> /;
const CUES = /(?:^|\n)[ \t]*\d+\n\d\d:\d\d:\d\d,\d{3} --> [^\n]*\n/;

const extractor: Extractor = {
  // The bytes say what it is, so the name need not. What this returns is compared with the claims of the others.
  accepts: ({ bytes }) =>
    NUMBER_AND_TIMES.test(text(bytes.subarray(0, HEAD_BYTES)))
      ? { fileType: FILE_TYPE, ground: 'content' }
      : null,
  async *extract({ bytes }: SourceDocument) {
    const cues = text(bytes).replaceAll('\r\n', '\n').split(CUES);
    const lines = cues.map((cue) => cue.trim()).filter((cue) => cue !== '');
    if (lines.length === 0) {
      throw Object.assign(new Error('the subtitles hold no text'), { code: 'no_text' });
    }
    yield { text: lines.join('\n'), pages: 1 };
  },
  close: async () => {},
};

function text(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

const plugin: ExtractorPlugin = {
  kind: 'extractor',
  name: 'subtitles',
  contract: 1,
  open: async () => extractor,
};

export default plugin;
