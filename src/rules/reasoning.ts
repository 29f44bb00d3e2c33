/**
 * Owns the marks between which a model thinks before it answers, and how they are found.
 * It must never look for marks that the model's own template does not know.
 */

export interface ReasoningMarks {
  readonly open: string;
  readonly close: string;
  /** What an answer without thoughts begins with; absent where that is nothing. */
  readonly answer?: string;
}

/** As the published templates of reasoning models write them. */
const KNOWN: readonly ReasoningMarks[] = [
  { open: '<think>', close: '</think>' },
  { open: '<thinking>', close: '</thinking>' },
  { open: '<thought>', close: '</thought>' },
  { open: '<reasoning>', close: '</reasoning>' },
  { open: '<seed:think>', close: '</seed:think>' },
  { open: '[THINK]', close: '[/THINK]' },
  { open: '◁think▷', close: '◁/think▷' },
  { open: '<|START_THINKING|>', close: '<|END_THINKING|>' },
];

/** Of models that name a channel before each message, such as gpt-oss. */
const ANALYSIS = '<|channel|>analysis<|message|>';
const FINAL = '<|channel|>final<|message|>';
const CHANNELS: ReasoningMarks = {
  open: ANALYSIS,
  close: `<|end|><|start|>assistant${FINAL}`,
  answer: FINAL,
};

/** @returns null for a model that does not think. */
export function reasoningMarks(template: string): ReasoningMarks | null {
  const has = (...texts: string[]) => texts.every((text) => template.includes(text));
  if (has(ANALYSIS, FINAL)) return CHANNELS;
  return KNOWN.find(({ open, close }) => has(open, close)) ?? null;
}

export interface SplitText {
  readonly reasoning: string;
  readonly rest: string;
}

/** Splits generated text into thoughts and answer. */
export class ReasoningReader {
  /** `before`: nothing but space has come. `closed`: nothing but space has come behind the thoughts. */
  #state: 'before' | 'inside' | 'closed' | 'after';
  #held = '';
  #hasShown = false;

  /** @param opened whether the prompt ends inside of the thoughts. */
  constructor(
    readonly marks: ReasoningMarks,
    opened: boolean,
  ) {
    this.#state = opened ? 'inside' : 'before';
  }

  /** What comes next is a thought, unless it is the mark that ends them. */
  get inside(): boolean {
    return this.#state === 'inside';
  }

  push(text: string): SplitText {
    if (this.#state === 'after') return { reasoning: '', rest: text };
    this.#held += text;
    if (this.#state === 'before') return this.#begin();
    return this.#state === 'inside' ? this.#goOn() : this.#goAfter('');
  }

  /** What was held back. */
  end(): SplitText {
    const held = this.#take();
    if (this.#state === 'inside') return { reasoning: held.trimEnd(), rest: '' };
    return { reasoning: '', rest: this.#state === 'closed' ? '' : held };
  }

  #begin(): SplitText {
    const { open, answer } = this.marks;
    const text = this.#held.trimStart();
    if (text.startsWith(open)) {
      this.#state = 'inside';
      this.#held = text.slice(open.length);
      return this.#goOn();
    }
    if (answer !== undefined && text.startsWith(answer)) this.#held = text.slice(answer.length);
    else if (open.startsWith(text) || answer?.startsWith(text)) return NOTHING;
    this.#state = 'after';
    return { reasoning: '', rest: this.#take() };
  }

  #goOn(): SplitText {
    const { close } = this.marks;
    if (!this.#hasShown) this.#held = this.#held.trimStart();
    const at = this.#held.indexOf(close);
    if (at < 0) {
      // White space before the mark is part of it, and so is its beginning.
      const shown = this.#held.slice(0, this.#held.length - begun(this.#held, close)).trimEnd();
      this.#held = this.#held.slice(shown.length);
      this.#hasShown ||= shown !== '';
      return { reasoning: shown, rest: '' };
    }
    const reasoning = this.#held.slice(0, at).trimEnd();
    this.#held = this.#held.slice(at + close.length);
    return this.#goAfter(reasoning);
  }

  /** Space between the thoughts and the answer belongs to neither. */
  #goAfter(reasoning: string): SplitText {
    const rest = this.#take().trimStart();
    this.#state = rest === '' ? 'closed' : 'after';
    return { reasoning, rest };
  }

  #take(): string {
    const held = this.#held;
    this.#held = '';
    return held;
  }
}

const NOTHING: SplitText = { reasoning: '', rest: '' };

/** How many characters at the end begin the mark. */
function begun(text: string, mark: string): number {
  for (let length = Math.min(mark.length - 1, text.length); length > 0; length--)
    if (text.endsWith(mark.slice(0, length))) return length;
  return 0;
}
