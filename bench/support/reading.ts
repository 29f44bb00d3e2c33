/**
 * Owns the messages between a bench and the process that reads documents for it.
 * It must never read a document itself.
 */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import {
  builtFile,
  CpuMeter,
  endProcess,
  resetPeak,
  startNode,
  statusKilobytes,
  treeOf,
  whileAlive,
} from './processes.js';

export interface ReadTask {
  /** Documents, which each lane reads one after the other. */
  readonly paths: readonly string[];
  readonly languages: readonly string[];
}

export interface ReadTexts {
  readonly pages: number;
  /** Texts of all documents, in the same order. */
  readonly texts: readonly string[];
  /** Reasons for documents that could not be read. */
  readonly failures: readonly string[];
}

export interface ReadDone extends ReadTexts {
  /** CPU of the process that was asked, while it read: not what it takes to ask it. */
  readonly ownCpuS: number;
}

/** `service`: the extraction pool of the service. `pdf2json`: that library alone. */
export interface ReadMode {
  readonly reader: 'service' | 'pdf2json';
  readonly processes: number;
  /** Of the models of OCR in place of those of packages. */
  readonly languagesFolder?: string;
  /** Whether the program tesseract recognises text in pictures, where it can; absent: the library does. */
  readonly byProgram?: boolean;
}

export class ReadingProcess {
  private constructor(private readonly child: ChildProcess) {}

  static async start(mode: ReadMode): Promise<ReadingProcess> {
    const args = [builtFile('bench/support/reading-process.js'), JSON.stringify(mode)];
    const stdio = ['ignore', 'ignore', 'inherit', 'ipc'] as const;
    const child = startNode('any', args, { stdio: [...stdio] });
    await once(child, 'message');
    return new ReadingProcess(child);
  }

  /** `peakMb`: the highest resident size of a reading process. */
  async read(task: ReadTask): Promise<ReadTexts & { cpuS: number; ms: number; peakMb: number }> {
    const tree = this.#tree();
    const meter = new CpuMeter(() => this.#tree().slice(1));
    for (const pid of readersOf(tree)) resetPeak(pid);
    const startedMs = performance.now();
    const answer = once(this.child, 'message');
    this.child.send(task);
    const [done] = (await answer) as [ReadDone];
    const ms = performance.now() - startedMs;
    const now = this.#tree();
    const cpuS = meter.end() + done.ownCpuS;
    // A reader may end behind its document, so that the next one begins afresh.
    const peaks = readersOf(now).flatMap((pid) => whileAlive(() => statusKilobytes(pid, 'VmHWM')));
    return { ...done, ms, cpuS, peakMb: (Math.max(...peaks) * 1024) / 1e6 };
  }

  #tree(): number[] {
    return treeOf(this.child.pid ?? 0);
  }

  async close(): Promise<void> {
    await endProcess(this.child);
  }
}

/** The service reads in child processes; the library reads in the process itself. */
function readersOf([asked = 0, ...children]: readonly number[]): readonly number[] {
  return children.length > 0 ? children : [asked];
}
