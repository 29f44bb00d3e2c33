/**
 * Owns what a person is told of the types of a file's numbers: how quickly they evaluate here, and what a conversion would give.
 * It must never guess: it tells what was measured on this machine, or how to measure it.
 */
import type { ConversionChoice, Measured } from '../weights/converted.js';

const HOW = '`preface models info NAME --measure`';

/** Rows of a table. @param choice null: nothing was measured yet. */
export function speedRows(choice: ConversionChoice | null): Record<string, string> {
  const keep = choice?.measured.keep;
  if (!choice || !keep) return { speed: `not yet measured on this machine: --measure does it` };
  const rows: Record<string, string> = { 'as it is': rates(keep) };
  for (const [type, measured] of othersOf(choice))
    rows[`as ${type}`] = `${rates(measured)}; ${gain(measured, keep)}`;
  rows.advice = adviceOf(choice);
  return rows;
}

/** One line of the same. */
export function speedText(choice: ConversionChoice | null): string {
  const keep = choice?.measured.keep;
  if (!choice || !keep) return `other types not compared: ${HOW}`;
  const others = othersOf(choice).map(([type, measured]) => `${type}: ${gain(measured, keep)}`);
  return [...others, adviceOf(choice)].join('; ');
}

const othersOf = ({ measured }: ConversionChoice): [string, Measured][] =>
  Object.entries(measured).filter(([type]) => type !== 'keep');

const rates = ({ promptPerS, streamPerS }: Measured): string =>
  `${Math.round(promptPerS)} tokens/s of a prompt, ${Math.round(streamPerS)} of one stream`;

function gain(of: Measured, keep: Measured): string {
  const prompt = (of.promptPerS / keep.promptPerS).toFixed(1);
  const stream = (of.streamPerS / keep.streamPerS).toFixed(1);
  return `prompts ${prompt}×, streams ${stream}×, perplexity × ${Math.exp(of.loss - keep.loss).toFixed(3)}`;
}

const adviceOf = ({ choice }: ConversionChoice): string =>
  choice === 'keep' ? 'no other type is worth it' : `PREFACE_QUANTIZE=${choice} would pay`;
