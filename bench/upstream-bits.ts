/**
 * Owns the check whether an upstream's answers depend on what else it does: vLLM and SGLang have modes in which they must not.
 * It must never be told from one answer: a server may be right by chance on a short one.
 */
import { type Answer, compareAnswers } from './support/same-answers.js';

const ANSWER_TOKENS = 64;
const USAGE = `usage: node dist/bench/upstream-bits.js URL MODEL [KEY]
URL ends in /v1`;

interface Reply {
  readonly choices: readonly {
    readonly message: { readonly content: string | null };
    readonly logprobs: {
      readonly content: readonly { readonly logprob: number }[] | null;
    } | null;
  }[];
}

async function main([url, model, key = 'none']: readonly string[]): Promise<void> {
  if (url === undefined || model === undefined) throw new Error(USAGE);
  const rows = await compareAnswers((prompt) => ask(`${url}/chat/completions`, model, key, prompt));
  for (const { when, sameText, gap } of rows) {
    const bits = gap === 0 ? 'the same bits' : `log-probabilities differ by up to ${gap}`;
    console.log(`${when}: ${sameText ? 'the same text' : 'another text'}, ${bits}`);
  }
  if (rows.some(({ sameText, gap }) => !sameText || gap > 0)) process.exitCode = 1;
}

async function ask(url: string, model: string, key: string, prompt: string): Promise<Answer> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model,
      messages: [{ role: 'user', content: prompt }],
      temperature: 0,
      max_tokens: ANSWER_TOKENS,
      logprobs: true,
    }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${url}: ${response.status} ${text}`);
  const [choice] = (JSON.parse(text) as Reply).choices;
  const logprobs = choice?.logprobs?.content?.map(({ logprob }) => logprob) ?? [];
  if (logprobs.length === 0) throw new Error(`${url} gives no log-probabilities`);
  return { text: choice?.message.content ?? '', logprobs };
}

await main(process.argv.slice(2));
