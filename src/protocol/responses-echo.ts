/**
 * Owns what a request of the Responses API says that its answer repeats, and what becomes of the answer.
 * It must hold data alone: it crosses threads, and lies in a record.
 */
import { invalid } from '../errors.js';
import { limits } from '../limits/index.js';
import type { Namespaces } from './responses-tools.js';
import type { JsonObject } from './schema.js';

export interface ResponseEcho {
  /** The fields of the request, as the response object has them. */
  readonly fields: JsonObject;
  /** The response is kept, with its input. */
  readonly keeps: boolean;
  readonly background: boolean;
  readonly conversation: string | null;
  /** The items of the input, as JSON; empty where nothing keeps them. */
  readonly given: string;
  /** What the model thinks is told as the summary, too. */
  readonly summarizes: boolean;
  readonly showsLogprobs: boolean;
  /** Functions of groups, by the names that the model knows. Absent: there are none. */
  readonly namespaces?: Namespaces;
  /** Types of the tools that the model is not shown. Absent: it is shown all. */
  readonly leftOut?: readonly string[];
  /** Its prompt is evaluated, and nothing answered. */
  readonly warmsUp?: true;
  /** The oldest items may be left out to fit the window. */
  readonly truncates: boolean;
}

/** An input that is too long is answered and not kept. @throws ApiError where it has to be. */
export function withLongInput(echo: ResponseEcho, length: number): ResponseEcho {
  const { background, conversation, fields } = echo;
  if (background || conversation !== null) {
    throw invalid(
      `${background ? 'background' : 'a conversation'} takes an input of at most ${limits.responseInputLengthMax} characters of JSON, got ${length}`,
      'input',
    );
  }
  return { ...echo, fields: { ...fields, store: false }, keeps: false, given: '' };
}
