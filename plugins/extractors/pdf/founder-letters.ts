/**
 * Owns the repair of texts that show Latin letters as rare Chinese signs: Founder's programs gave them these codes, and Chinese standards are set with them.
 * It must never change a sign that may be Chinese.
 */

/** In GBK they are this byte and the letter with its highest bit set. */
const LEAD = 0xa0;
/** Fewer different ones may be Chinese: the traditional 狀 is among them. */
const DISTINCT_MIN = 5;
/** As a share of them: beside another one. Most of these signs never stand so. */
const RUNS_MIN = 0.6;

const letters = new Map(
  [...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'].map((letter) => [
    new TextDecoder('gbk').decode(Uint8Array.of(LEAD, letter.charCodeAt(0) | 0x80)),
    letter,
  ]),
);
const signs = [...letters.keys()].join('');
const SIGN = new RegExp(`[${signs}]`, 'g');
const RUN = new RegExp(`[${signs}]{2,}`, 'g');

export function withFounderLetters(text: string): string {
  const found = text.match(SIGN);
  if (found === null || new Set(found).size < DISTINCT_MIN) return text;
  const inRuns = text.match(RUN)?.join('').length ?? 0;
  if (inRuns < found.length * RUNS_MIN) return text;
  return text.replace(SIGN, (sign) => letters.get(sign) ?? sign);
}
