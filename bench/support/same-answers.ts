/**
 * Owns the comparison of a server's answers to one prompt: asked first, asked again, and beside other prompts.
 * It must never sample: two draws of one distribution differ without a fault.
 */
import { prose } from './prose.js';

export interface Answer {
  readonly text: string;
  /** Of each token, as the server wrote them. */
  readonly logprobs: readonly number[];
}

export interface Compared {
  readonly when: string;
  readonly sameText: boolean;
  /** The largest difference of a log-probability up to where the texts part; 0 where the bits are the same. */
  readonly gap: number;
}

const OTHERS = 7;
const PROMPT_CHARACTERS = 3_000;

/** @param ask one prompt, greedily. */
export async function compareAnswers(
  ask: (prompt: string) => Promise<Answer>,
): Promise<readonly Compared[]> {
  const prompt = `${prose(PROMPT_CHARACTERS, 1)}\n\nWhat does this text allow, and what not?`;
  const others = Array.from({ length: OTHERS }, (_, at) => prose(200 * (at + 1), at + 2));
  const first = await ask(prompt);
  const again = await ask(prompt);
  const [beside] = await Promise.all([prompt, ...others].map(ask));
  const [longer] = await Promise.all([`${prompt} Say why.`, ...others].map(ask));
  const alone = await ask(`${prompt} Say why.`);
  return [
    compared('the same prompt again', first, again),
    compared(`beside ${OTHERS} other prompts`, first, beside ?? first),
    compared('a longer prompt, alone and beside others', longer ?? alone, alone),
  ];
}

function compared(when: string, one: Answer, other: Answer): Compared {
  let gap = 0;
  for (const [at, logprob] of one.logprobs.entries()) {
    const found = other.logprobs[at];
    if (found === undefined) break;
    gap = Math.max(gap, Math.abs(logprob - found));
    if (gap > 1) break;
  }
  const isSameLength = one.logprobs.length === other.logprobs.length;
  return { when, sameText: one.text === other.text && isSameLength, gap };
}
