/**
 * Owns the life of one question: it is opened, measured, and always closed.
 * It must never print or save results: its caller does.
 */
import type { Question, Scale } from './question.js';
import type { Result } from './report.js';
import { measure } from './rounds.js';

/** Just enough to prove that a question still works. */
export const tiny: Scale = { tiny: true, rounds: 1, ms: 300 };

export async function ask(
  question: Question,
  scale: Scale,
): Promise<Result | { readonly skipped: string }> {
  const opened = await question.open(scale);
  if ('skipped' in opened) return opened;
  try {
    const { name, title } = question;
    const { notes, curves = null } = opened;
    return { name, title, notes, curves, scale, ...(await measure(opened, scale)) };
  } finally {
    await opened.close();
  }
}
