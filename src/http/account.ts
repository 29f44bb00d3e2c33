/**
 * Owns the routes of one's own account: `/v1/users/{user}/balance` and `/v1/users/{user}/usage`.
 * It must never tell a user anything of another, not even whether there is one.
 */
import type { Clock } from '../clock.js';
import { ApiError } from '../errors.js';
import { balance, parseUsageDays, type WireDayUsage } from '../protocol/account.js';
import { type DayUsage, dateOf, usageDays } from '../rules/account.js';
import { accountOf } from '../rules/account-policy.js';
import { balanceView } from '../rules/account-rates.js';
import type { Gate } from './gate.js';
import { type Route, route } from './router.js';

const anyApi = { api: null } as const;

/** In a path, a user may write this in place of the own name. */
const ONESELF = 'me';

export function accountRoutes(gate: Gate, clock: Clock): Route[] {
  const { accounts } = gate;
  return [
    route(
      'GET',
      '/v1/users/:user/balance',
      gate.guardFree(anyApi, async (exchange, caller, params) => {
        checkOneself(caller.user, params.user);
        const { rates } = await accounts.look(caller.user);
        exchange.replyJson(200, balance(balanceView(rates, caller.policy)));
      }),
    ),
    route(
      'GET',
      '/v1/users/:user/usage',
      gate.guardFree(anyApi, async (exchange, caller, params) => {
        checkOneself(caller.user, params.user);
        const count = parseUsageDays(exchange.query);
        const days = usageDays(await accounts.look(caller.user), clock.nowMs(), count);
        exchange.replyJson(200, { object: 'list', data: days.map(dayJson) });
      }),
    ),
  ];
}

export function checkOneself(user: string, asked: string): void {
  if (asked !== ONESELF && asked !== accountOf(user)) throw new ApiError('otherUser');
}

export function dayJson(usage: DayUsage): WireDayUsage {
  return {
    date: dateOf(usage),
    requests: usage.requests,
    prompt_tokens: usage.promptTokens,
    cached_tokens: usage.cachedTokens,
    completion_tokens: usage.completionTokens,
  };
}
