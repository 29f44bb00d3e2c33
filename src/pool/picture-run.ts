/**
 * Owns one run of the program that recognises text: one picture in, what the program writes out.
 * It must never read what the program writes, but for its first and last words, nor let it run once its time or its room for an answer is over.
 */
import type { ChildProcess } from 'node:child_process';
import type { Clock } from '../clock.js';
import { limits } from '../limits/index.js';
import type { PictureToRead } from '../plugin/contract.js';
import { type Command, killChild, spawnCommand } from './child.js';
import type { PictureAnswer } from './messages.js';

export interface PictureProgram {
  readonly env: Readonly<Record<string, string>>;
  command(layout: PictureToRead['layout']): Command;
}

export interface PictureRun {
  /** Comes once, and never as a rejection. */
  readonly answer: Promise<PictureAnswer>;
  /** Kills the program; its answer is then null. */
  end(why: string): void;
}

export interface PictureRunOptions {
  readonly clock: Clock;
  readonly msMax: number;
  /** Hears why there is no answer. */
  readonly log: (line: string) => void;
}

export function startPicture(
  { command, env }: PictureProgram,
  picture: PictureToRead,
  { clock, msMax, log }: PictureRunOptions,
): PictureRun {
  let child: ChildProcess | null = null;
  let settle: (answer: PictureAnswer) => void = () => {};
  let settled = false;
  const answer = new Promise<PictureAnswer>((resolve) => {
    settle = resolve;
  });
  const finish = (output: PictureAnswer) => {
    if (settled) return;
    settled = true;
    cancel();
    settle(output);
  };
  const end = (why: string) => {
    if (settled) return;
    if (child !== null) killChild(child);
    log(why);
    finish(null);
  };
  const cancel = clock.after(msMax, () => end(`it took longer than ${msMax / 1000} s`));
  try {
    child = spawnCommand(command(picture.layout), ['pipe', 'pipe', 'ignore', 'ignore'], {
      env: { ...env },
      cwd: '/',
    });
  } catch (cause) {
    end(cause instanceof Error ? cause.message : 'it could not be started');
    return { answer, end };
  }
  const parts: Buffer[] = [];
  let length = 0;
  child.once('error', (cause) => end(cause.message));
  child.stdout?.on('data', (part: Buffer) => {
    length += part.length;
    if (length > limits.recognitionOutputBytesMax) end('it wrote more than it may');
    else if (!settled) parts.push(part);
  });
  child.once('close', (code, signal) => {
    const output = Buffer.concat(parts);
    if (code === 0 && isWhole(output)) finish(output);
    else if (code === 0) end('it wrote something else than hOCR');
    else end(`it ended: ${signal ?? `code ${code}`}`);
  });
  // Who ends before the picture has gone in is met at its end.
  child.stdin?.on('error', () => {});
  child.stdin?.write(`P5\n${picture.width} ${picture.height}\n255\n`);
  child.stdin?.end(picture.pixels);
  return { answer, end };
}

/** A program that prints something else is told of, and who asked does not take it for an empty page. */
function isWhole(output: Buffer): boolean {
  const isBegun = output.subarray(0, 5).toString('latin1') === '<?xml';
  return isBegun && output.subarray(-16).toString('latin1').trimEnd().endsWith('</html>');
}
