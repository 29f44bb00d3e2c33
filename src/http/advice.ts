/**
 * Owns the route of what was noticed of one's own prompts: `/v1/users/{user}/advice`.
 * It must never tell a user anything of another's prompts.
 */
import type { PrefixDoctor } from '../chat/prefix-doctor.js';
import {
  type Advice,
  adviceList,
  type WireAdviceList,
  type WireOwnedAdviceList,
} from '../protocol/advice.js';
import { accountOf } from '../rules/account-policy.js';
import { checkOneself } from './account.js';
import type { Gate } from './gate.js';
import { type Route, route } from './router.js';

export function adviceRoutes(gate: Gate, doctor: PrefixDoctor): Route[] {
  return [
    route(
      'GET',
      '/v1/users/:user/advice',
      gate.guardFree({ api: null }, async (exchange, caller, params) => {
        checkOneself(caller.user, params.user);
        exchange.replyJson(200, adviceList(doctor.advices(caller.user)));
      }),
    ),
  ];
}

/** Of an account and all of its people, the dearest first. */
export function adviceOf(doctor: PrefixDoctor, user: string): WireAdviceList {
  const owners = doctor.owners().filter((owner) => accountOf(owner) === user);
  const advices = owners.flatMap((owner): readonly Advice[] => doctor.advices(owner));
  return adviceList(advices.sort((one, other) => other.tokens - one.tokens));
}

/** Of everybody, with whose it is. */
export function adviceOfAll(doctor: PrefixDoctor): WireOwnedAdviceList {
  const data = doctor
    .owners()
    .flatMap((user) => adviceList(doctor.advices(user)).data.map((place) => ({ user, ...place })));
  return { object: 'list', data: data.sort((one, other) => other.tokens - one.tokens) };
}
