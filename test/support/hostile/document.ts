/**
 * Owns what is said of a document that is made to do harm: its bytes, and how it has to end.
 * It must never be made of anything but code: nobody else's file is a weapon here.
 */

export interface HostileDocument {
  readonly name: string;
  readonly bytes: Uint8Array;
  readonly filename?: string;
  /** It has to be read, and its text has to be like this. */
  readonly text?: RegExp;
  /** It has to be refused, for a reason like this. With neither of both it may be read or refused. */
  readonly reason?: RegExp;
}
