/**
 * Owns the proof that what is remembered of prompts stays within its bound.
 */
import t from 'tap';
import { PrefixDoctor } from '../../src/chat/prefix-doctor.js';
import { limits } from '../../src/limits/index.js';
import { SimulatedClock } from '../support/simulated-clock.js';

t.test(
  'prompts that grow are counted as they are, and the oldest owners are forgotten',
  async (t) => {
    const doctor = new PrefixDoctor(new SimulatedClock(), () => {});
    const whole = Uint32Array.from({ length: limits.adviceIdsMax }, (_, at) => at);
    const examine = (owner: number, length: number) =>
      doctor.examine({
        owner: `owner-${owner}`,
        family: 'svc-v1',
        model: 'm',
        ids: whole.subarray(0, length),
        textOf: () => '',
        nameOf: () => '',
        messages: () => [],
      });
    const fitting = limits.adviceBytesMax / whole.byteLength;
    const owners = Math.min(limits.adviceOwnersMax, 2 * fitting);
    for (let at = 0; at < owners; at++) await examine(at, limits.adviceTokensMin);
    t.equal(doctor.owners().length, owners);
    for (let at = 0; at < owners; at++) await examine(at, whole.length);
    t.equal(doctor.owners().length, fitting);
    t.ok(doctor.owners().includes(`owner-${owners - 1}`), 'who came last stays');
  },
);
