/**
 * Owns the recognition of text in pictures for extractors: by the program of the machine where there is one, else by tesseract.js.
 * It must never lose a text because the program fails: then the library reads this picture, and the next ones.
 */
import type { ExtractorOptions } from 'preface/plugin';
import { type Library, openLibrary } from './library.js';
import { type GreyPicture, isBlank } from './picture.js';
import { programPass } from './program.js';
import { bestOf, NOTHING, type Recognized } from './tries.js';

export interface Recognizer {
  /** @param turns where a picture may lie on its side or on its head: each try takes as long as the first. */
  recognize(picture: GreyPicture, turns?: boolean): Promise<Recognized>;
  close(): Promise<void>;
}

export type Languages = Pick<ExtractorOptions, 'languages' | 'languagesFolder' | 'recognize'>;

/** Without a program, checks immediately that the languages are installed; loads them at the first picture. */
export function openRecognizer(options: Languages): Recognizer {
  // Without a language no picture is read.
  if (options.languages.length === 0)
    return { recognize: async () => NOTHING, close: async () => {} };
  let pass = options.recognize === undefined ? null : programPass(options.recognize);
  let library: Library | null = pass === null ? openLibrary(options) : null;
  return {
    async recognize(picture, turns = true) {
      if (isBlank(picture)) return NOTHING;
      if (pass !== null) {
        try {
          return await bestOf(pass, picture, turns);
        } catch {
          // The service has logged why.
        }
      }
      library ??= openLibrary(options);
      // A program that failed would take its time again.
      pass = null;
      return await library.read(picture, turns);
    },
    async close() {
      await library?.close();
    },
  };
}
