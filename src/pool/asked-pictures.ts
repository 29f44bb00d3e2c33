/**
 * Owns the asking for text of pictures, from the thread that reads documents: one at a time, in order.
 * It must never believe what comes back: it is cut in two, and nothing else of it is looked at.
 */
import type { MessagePort } from 'node:worker_threads';
import type { ExtractorOptions, RecognizedPicture } from '../plugin/contract.js';
import type { PictureAnswer } from './messages.js';

type Recognize = NonNullable<ExtractorOptions['recognize']>;

/** @param port takes a `PictureToRead`, and then gives its `PictureAnswer`. */
export function askedThrough(port: MessagePort): Recognize {
  let turn: Promise<unknown> = Promise.resolve();
  return (picture) => {
    const answer = turn.then(() => {
      port.postMessage(picture);
      return new Promise<PictureAnswer>((resolve) => port.once('message', resolve));
    });
    turn = answer;
    return answer.then(recognizedOf);
  };
}

/** The end of the one page, in the markup, where `<` of a text is written otherwise; the plain text follows. */
const MARKUP_END = '\n  </div>\n';

/** @throws Error where it is not what the program writes. */
function recognizedOf(answer: PictureAnswer): RecognizedPicture {
  const output = answer === null ? '' : Buffer.from(answer).toString('utf8');
  const from = output.indexOf(MARKUP_END);
  const at = from + MARKUP_END.length;
  if (from < 0) throw new Error('the program that recognises pictures failed');
  // They part the pages of one run, and are no letters.
  return { text: output.slice(at).replaceAll('\f', ''), hocr: output.slice(0, at) };
}
