/**
 * Owns the box of one answer: its text as it comes, its tool calls, its tokens, and where its time went.
 * It must never show a text as anything but text.
 */
import { element } from '../shared/dom.js';
import * as format from '../shared/format.js';
import { stagesOf, waterfall } from '../shared/stages.js';

export class AnswerBox {
  /** @param {string} title @param {HTMLElement} place */
  constructor(title, place) {
    this.time = element('strong', {}, '…');
    this.note = element('p', { role: 'status' }, 'waiting for the first token …');
    this.text = element('pre', {
      tabindex: 0,
      role: 'region',
      'aria-label': `Answer ${title.toLowerCase()}`,
    });
    this.root = element(
      'section',
      { class: 'side', 'aria-label': title },
      element('h3', {}, title),
      element('p', {}, this.time, ' to the first content'),
      this.note,
      this.text,
    );
    place.append(this.root);
  }

  /** @param {string} text */
  say(text) {
    this.note.textContent = text;
  }

  /** @param {string} piece */
  add(piece) {
    this.text.append(piece);
  }

  /** @param {import('./stream.js').Answer} answer @param {number} scaleMs of both sides */
  show(answer, scaleMs) {
    const { times, toolCalls, finish } = answer;
    const { first_content_ms: firstMs } = times;
    this.time.textContent = firstMs === null ? 'nothing' : format.milliseconds(firstMs);
    this.say(noteOf(answer));
    for (const { function: call } of toolCalls) {
      this.text.append(element('code', { class: 'call' }, `${call.name}(${call.arguments})`), '\n');
    }
    if (this.text.textContent === '') this.text.append(`(empty: ${finish})`);
    this.root.append(waterfall(stagesOf(times), scaleMs));
  }
}

/** @param {import('./stream.js').Answer} answer */
function noteOf({ usage, cacheStatus, missReason, finish }) {
  const all = usage?.prompt_tokens ?? 0;
  const reused = usage?.prompt_tokens_details?.cached_tokens ?? 0;
  const parts = [
    `${format.count(reused)} of ${format.count(all)} prompt tokens reused`,
    `${format.count(usage?.completion_tokens ?? 0)} out`,
  ];
  if (cacheStatus !== null)
    parts.push(`cache: ${cacheStatus}${missReason === null ? '' : `, ${missReason}`}`);
  if (finish === 'length') parts.push('cut at its most tokens');
  return parts.join('; ');
}
