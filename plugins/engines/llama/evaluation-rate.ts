/**
 * Owns the measured time that a token of a prompt takes in one model's context, the last steps counting most.
 * It must never say anything before something was measured.
 */

/** Of what was measured before, at each step. */
const REMEMBERED = 0.75;

export class EvaluationRate {
  #ms = 0;
  #tokens = 0;

  took(ms: number, tokens: number): void {
    this.#ms = REMEMBERED * this.#ms + ms;
    this.#tokens = REMEMBERED * this.#tokens + tokens;
  }

  /** null: nothing was measured. */
  get msPerToken(): number | null {
    return this.#tokens === 0 ? null : this.#ms / this.#tokens;
  }
}
