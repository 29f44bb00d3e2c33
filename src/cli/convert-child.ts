/**
 * Owns the conversion of one file of weights: into new files, looked into and measured before one of them gets its name.
 * It must never leave a file under its name that is not whole.
 */
import { readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { limits } from '../limits/index.js';
import type { EnginePlugin } from '../plugin/contract.js';
import { loadPlugin } from '../plugin/load.js';
import { settled, writeDurably } from '../store/durable.js';
import type { ConversionChoice, Converted, Measured } from '../weights/converted.js';
import { checkRoom } from '../weights/room.js';
import type { ConvertTask } from './conversion.js';

type Tools = Required<Pick<EnginePlugin, 'inspect' | 'convert' | 'measure'>>;

/** Bytes of a number of the larger type, and a little for the head. */
const BYTES_PER_NUMBER = 1.1;

async function main(task: ConvertTask): Promise<void> {
  const tools = (await loadPlugin(task.engine, 'engine')) as EnginePlugin & Tools;
  const targets = Object.entries(task.targets) as [Converted, string][];
  const parts = targets.map(([type, path]) => ({
    type,
    path,
    part: `${path}.${process.pid}.part`,
  }));
  try {
    const report = await tools.inspect(task.path, task.stateDir);
    if (report.refusal !== null) throw new Error(report.refusal);
    await checkRoom(targets[0]?.[1] ?? '', report.parameters * BYTES_PER_NUMBER * parts.length);
    for (const { type, part } of parts) {
      await rm(part, { force: true });
      await tools.convert(task.path, part, type);
      await tools.inspect(part, task.stateDir);
    }
    const found = task.choice === null ? null : await choose(task.path, tools, parts);
    const chosen = found?.choice ?? parts[0]?.type ?? 'keep';
    const winner = parts.find(({ type }) => type === chosen);
    if (winner !== undefined) await settled(winner.part, winner.path);
    // After the file, so that a choice never names one that is not there.
    if (task.choice !== null) await writeDurably(task.choice, `${JSON.stringify(found)}\n`);
    const as = chosen === 'keep' ? 'it is' : chosen;
    process.stdout.write(`${task.path} is ${found === null ? 'served' : 'best'} as ${as}\n`);
  } finally {
    for (const { part } of parts) await rm(part, { force: true });
  }
}

interface Part {
  readonly type: Converted;
  readonly part: string;
}

async function choose(
  path: string,
  tools: Tools,
  parts: readonly Part[],
): Promise<ConversionChoice> {
  const text = readFileSync(new URL('../../../README.md', import.meta.url), 'utf8');
  const keep: Measured = await tools.measure(path, text);
  const measured: Record<string, Measured> = { keep };
  for (const { type, part } of parts) measured[type] = await tools.measure(part, text);
  const good = parts.filter(({ type }) => isWorth(measured[type] ?? keep, keep));
  const speed = ({ type }: Part) => measured[type]?.promptPerS ?? 0;
  const [best] = good.sort((a, b) => speed(b) - speed(a));
  return { choice: best?.type ?? 'keep', measured };
}

/** Prompts much quicker, streams not slower, and the text nearly as likely. */
function isWorth(of: Measured, keep: Measured): boolean {
  const quick = of.promptPerS >= limits.convertPromptGainMin * keep.promptPerS;
  const steady = of.streamPerS >= limits.convertStreamShareMin * keep.streamPerS;
  return quick && steady && of.loss <= keep.loss + Math.log(limits.convertPerplexityMax);
}

await main(JSON.parse(process.argv[2] ?? '{}') as ConvertTask).catch((cause: Error) => {
  process.stderr.write(`${cause.message}\n`);
  process.exitCode = 1;
});
