/**
 * Owns the process that reads documents by Apache POI, to compare with: one for many, since it takes seconds to start.
 * It must never wait for ever: a document that takes too long counts as unread, and the process is started anew.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';

/** Where Debian's libapache-poi-java puts them. */
const JARS = '/usr/share/java';
const LIBRARIES = 'poi poi-scratchpad commons-codec commons-collections4 commons-math3'.split(' ');
const SOURCE = fileURLToPath(new URL('../../../bench/support/PoiReference.java', import.meta.url));
const UNREAD = '-';

export class PoiReader {
  #child: ChildProcessByStdio<Writable, Readable, null> | null = null;
  #lines: AsyncIterator<string> | null = null;

  /** Null where it does not read the document. */
  async text(path: string, msMax: number): Promise<string | null> {
    this.#child ??= this.#start();
    this.#child.stdin.write(`${path}\n`);
    const clock = setTimeout(() => this.#child?.kill('SIGKILL'), msMax);
    const line = await this.#lines?.next();
    clearTimeout(clock);
    // It has ended: without Java there is no line at all.
    if (line === undefined || line.done === true) this.#child = null;
    if (line === undefined || line.done === true || line.value === UNREAD) return null;
    return Buffer.from(line.value, 'base64').toString('utf8');
  }

  #start(): ChildProcessByStdio<Writable, Readable, null> {
    const path = LIBRARIES.map((name) => `${JARS}/${name}.jar`).join(':');
    const child = spawn('java', ['-cp', path, SOURCE], { stdio: ['pipe', 'pipe', 'ignore'] });
    child.on('error', () => {});
    child.stdin.on('error', () => {});
    this.#lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    return child;
  }

  async close(): Promise<void> {
    const child = this.#child;
    if (child === null) return;
    const ended = once(child, 'exit');
    child.stdin.end();
    await ended;
  }
}
