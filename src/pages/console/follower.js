/**
 * Owns the looks of a view that follows the service: one after the other, as long as the view is open.
 * It must never look while another look is under way, nor end because the server was away for a moment.
 */
import { byId } from '../shared/dom.js';

export class Follower {
  /**
   * @param {number} everyMs from the end of a look to the next
   * @param {() => Promise<void>} look
   */
  constructor(everyMs, look) {
    this.everyMs = everyMs;
    this.look = look;
    /** Another number, another following: the end of an earlier look begins nothing. */
    this.turn = 0;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
  }

  /** @param {(fault: unknown) => void} failed */
  start(failed) {
    this.stop();
    this.#wait(this.turn, failed, false);
  }

  stop() {
    clearTimeout(this.timer);
    this.turn += 1;
  }

  /** @param {number} turn @param {(fault: unknown) => void} failed @param {boolean} hasFailed */
  #wait(turn, failed, hasFailed) {
    if (turn !== this.turn) return;
    this.timer = setTimeout(() => {
      this.look().then(
        () => {
          if (hasFailed) byId('message').replaceChildren();
          this.#wait(turn, failed, false);
        },
        (fault) => {
          if (turn === this.turn) failed(fault);
          this.#wait(turn, failed, true);
        },
      );
    }, this.everyMs);
  }
}

/** A view that looks again as long as it is open. */
export class FollowedView {
  /**
   * @param {import('../shared/api.js').Api} api
   * @param {number} everyMs
   */
  constructor(api, everyMs) {
    this.api = api;
    this.follower = new Follower(everyMs, () => this.look());
    /** @type {(fault: unknown) => void} */
    this.failed = () => {};
  }

  /** @returns {Promise<void>} */
  async show() {}

  look() {
    return this.show();
  }

  /** @param {(fault: unknown) => void} failed */
  follow(failed) {
    this.failed = failed;
    this.follower.start(failed);
  }

  leave() {
    this.follower.stop();
  }
}
