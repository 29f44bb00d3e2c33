/**
 * Owns the one parser of markup: XML parts and web pages come as elements and text, one after the other.
 * It must never build a tree, expand an entity that a document declares, or follow a reference.
 */
import { Parser } from 'htmlparser2';
import { declaredInXml } from '../shared/declared.js';
import { decoderOf, type Encoding, encodingNamed } from '../shared/decoder.js';
import { refusal } from '../shared/refusal.js';

export interface MarkupHandler {
  /** Names without their prefix; attributes as they stand. */
  open(name: string, attributes: Readonly<Record<string, string>>): void;
  text(text: string): void;
  close(name: string): void;
}

const CHUNK_BYTES = 64 * 1024;

/** Parses XML bytes chunk by chunk; the caller may take results between two chunks. */
export function* walkXml(
  bytes: Uint8Array,
  handler: MarkupHandler,
  depthMax: number,
): Generator<void> {
  const parser = parserOf(handler, depthMax, true);
  yield* feed(parser, bytes, encodingOfXml(bytes));
}

export function readXml(bytes: Uint8Array, handler: MarkupHandler, depthMax: number): void {
  for (const _ of walkXml(bytes, handler, depthMax));
}

/** A web page or a chapter of a book, well-formed or not: its bytes as XML declares them, or its text. */
export function readHtml(
  source: Uint8Array | Iterable<string>,
  handler: MarkupHandler,
  depthMax: number,
): void {
  const parser = parserOf(handler, depthMax, false);
  if (source instanceof Uint8Array) for (const _ of feed(parser, source, encodingOfXml(source)));
  else {
    for (const text of source) parser.write(text);
    parser.end();
  }
}

function* feed(parser: Parser, bytes: Uint8Array, encoding: Encoding): Generator<void> {
  const decode = decoderOf(encoding);
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES) {
    parser.write(decode(bytes.subarray(at, at + CHUNK_BYTES)));
    yield;
  }
  parser.write(decode(null));
  parser.end();
}

function parserOf(handler: MarkupHandler, depthMax: number, xml: boolean): Parser {
  let depth = 0;
  return new Parser(
    {
      onopentag: (name, attributes) => {
        depth += 1;
        if (depth > depthMax) {
          throw refusal('bound', `its markup is nested more than ${depthMax} deep`);
        }
        handler.open(localName(name), attributes);
      },
      ontext: (text) => handler.text(text),
      onclosetag: (name) => {
        depth -= 1;
        handler.close(localName(name));
      },
    },
    xml
      ? { xmlMode: true, decodeEntities: true }
      : { decodeEntities: true, recognizeSelfClosing: true, recognizeCDATA: true },
  );
}

function localName(name: string): string {
  const colon = name.indexOf(':');
  return colon === -1 ? name : name.slice(colon + 1);
}

/** An attribute whatever prefix the writer chose for it. */
export function attribute(
  attributes: Readonly<Record<string, string>>,
  name: string,
): string | undefined {
  const plain = attributes[name];
  if (plain !== undefined) return plain;
  for (const key in attributes) {
    if (localName(key) === name) return attributes[key];
  }
  return undefined;
}

/** As its mark or its declaration says; UTF-8 where they say nothing. */
export function encodingOfXml(bytes: Uint8Array): Encoding {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return 'utf-16le';
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return 'utf-16be';
  if (bytes[0] === 0 && bytes[1] === 0x3c) return 'utf-16be';
  if (bytes[0] === 0x3c && bytes[1] === 0) return 'utf-16le';
  const declared = encodingNamed(declaredInXml(bytes) ?? 'utf-8') ?? 'utf-8';
  // A declaration that can be read as ASCII is not that of a wider encoding.
  return declared.startsWith('utf') ? 'utf-8' : declared;
}
