/**
 * Owns the look at one file of weights: by the engine, by the tokenizer, and by the rule for templates.
 * It must never write anything but its one line.
 */
import type { ModelKind, TokenizerPlugin } from '../plugin/contract.js';
import { loadPlugin } from '../plugin/load.js';
import { ChatTemplate } from '../rules/chat-template.js';
import { assertPrefixStable } from '../rules/prefix-stability.js';
import type { LookTask, WeightsLook } from './weights-look.js';

async function look(task: LookTask): Promise<WeightsLook> {
  const { path, engine, stateDir, draft } = task;
  const plugin = await loadPlugin(engine, 'engine');
  const report = await plugin.inspect?.(path, stateDir, draft ?? undefined);
  if (report === undefined) return { report: null, refusal: `${engine} looks into no file` };
  return { report, refusal: report.refusal ?? (await promptFault(task, report.kind ?? 'chat')) };
}

/** What the service meets when it makes prompts: the vocabulary, then the template of a model for chats. */
async function promptFault(
  { path, tokenizer, template }: LookTask,
  kind: ModelKind,
): Promise<string | null> {
  try {
    const plugin: TokenizerPlugin = await loadPlugin(tokenizer, 'tokenizer');
    const opened = await plugin.open({ path });
    const info = opened.info();
    if (kind !== 'chat') return null;
    const source = { ...info, template: template ?? info.template, readsCalls: true as const };
    assertPrefixStable(new ChatTemplate(source));
    return null;
  } catch (cause) {
    return (cause as Error).message;
  }
}

const task = JSON.parse(process.argv[2] ?? '{}') as LookTask;
const found = await look(task).catch(
  (cause: Error): WeightsLook => ({ report: null, refusal: cause.message }),
);
process.stdout.write(`${JSON.stringify(found)}\n`);
