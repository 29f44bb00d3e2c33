/**
 * Owns the question how fast a large upload is, and how much memory it takes, beside a bare server with the same bytes.
 * It must never begin an upload while the text of the previous file is still being extracted.
 */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hasProc } from './support/processes.js';
import type { Line, OpenQuestion, Question, Sample, Side } from './support/question.js';
import { KEY, type Server, startRaw, startService } from './support/servers.js';
import { peakOf, sendForm } from './support/upload-client.js';

const MB = 100;

export const question: Question = {
  name: 'upload',
  title: 'Upload of 100 MB',
  async open({ tiny }): Promise<OpenQuestion | { skipped: string }> {
    if (!hasProc) return { skipped: 'it needs /proc' };
    const folder = mkdtempSync(join(tmpdir(), 'preface-bench-'));
    const service = await startService({ core: 'server', env: { PREFACE_OCR_LANGUAGES: 'eng' } });
    const disk = await startRaw('server', { type: 'sink', folder });
    const nowhere = await startRaw('server', { type: 'sink', folder: null });
    const piece = randomBytes(2 ** 20);
    const megabytes = tiny ? 2 : MB;
    const figures = new Uploads(service, megabytes, piece);
    return {
      sides: [
        { name: 'preface', measure: async (round) => (await figures.of(round)).speed },
        { name: 'preface, memory', measure: async (round) => (await figures.of(round)).memory },
        rawSide('raw sink on disk', disk, megabytes, piece),
        rawSide('raw sink to nowhere', nowhere, megabytes, piece),
      ],
      lines,
      notes: [
        'On disk: written and flushed before the answer, as preface does, which also takes the form apart.',
        'Memory: the highest resident size of the main process during the upload, less that before it.',
      ],
      close: async () => {
        await Promise.all([service.close(), disk.close(), nowhere.close()]);
        rmSync(folder, { recursive: true, force: true });
      },
    };
  },
};

const speed = { subject: 'preface', unit: 'MB/s', judged: 'ratio', better: 'more' } as const;

const lines: readonly Line[] = [
  {
    ...speed,
    label: 'beside a sink on disk',
    floors: ['raw sink on disk'],
    must: 0.6,
    goal: 0.85,
  },
  {
    ...speed,
    label: 'beside a sink to nowhere',
    floors: ['raw sink to nowhere'],
    must: null,
    goal: null,
  },
  {
    label: 'more memory',
    subject: 'preface, memory',
    unit: 'MB',
    floors: [],
    judged: 'value',
    better: 'less',
    must: 32,
    goal: 16,
  },
];

function rawSide(name: string, server: Server, megabytes: number, piece: Buffer): Side {
  return {
    name,
    measure: async () => {
      const { status, ms } = await sendForm(server.port, megabytes, piece, {});
      return { value: (1000 * megabytes) / ms, errors: status === 200 ? 0 : 1, check: 'taken' };
    },
  };
}

/** One upload per round gives both figures. */
class Uploads {
  #last: { round: number; samples: Promise<Samples> } | null = null;

  constructor(
    private readonly server: Server,
    private readonly megabytes: number,
    private readonly piece: Buffer,
  ) {}

  of(round: number): Promise<Samples> {
    if (this.#last?.round !== round) this.#last = { round, samples: this.#measure() };
    return this.#last.samples;
  }

  async #measure(): Promise<Samples> {
    const headers = { authorization: `Bearer ${KEY}` };
    const peak = peakOf(this.server.pid);
    const { status, ms, body } = await sendForm(
      this.server.port,
      this.megabytes,
      this.piece,
      headers,
    );
    const memoryMb = peak.moreMegabytes();
    const { id, bytes } = JSON.parse(body) as { id?: string; bytes?: number };
    const address = `http://127.0.0.1:${this.server.port}/v1/files/${id}`;
    // The file is no document: once its reader has said so, no work is left.
    await (await fetch(`${address}/content`, { headers })).text();
    await (await fetch(address, { method: 'DELETE', headers })).text();
    const errors = status === 200 && bytes === this.megabytes * this.piece.length ? 0 : 1;
    const check = { errors, check: 'taken' };
    return {
      speed: { ...check, value: (1000 * this.megabytes) / ms },
      // Zero would be no valid figure, so one kilobyte stands for it.
      memory: { ...check, value: Math.max(memoryMb, 0.001) },
    };
  }
}

interface Samples {
  readonly speed: Sample;
  readonly memory: Sample;
}
