/**
 * Owns the description of the operations on one's own account.
 * It must never say of a field what its schema does not say.
 */
import { limits } from '../limits/index.js';
import { balanceSchema, dayUsageSchema, usageListSchema } from './account.js';
import { adviceListSchema, adviceSchema } from './advice.js';
import { type Operation, type Parameter, pathParameter, type Resource } from './api.js';
import { Type } from './schema.js';

const common = { method: 'get', tag: 'Account', secured: true } as const;

const user = pathParameter('user', '`me`, or the own name.');

export const usageDays: Parameter = {
  name: 'days',
  in: 'query',
  description: 'How many days, the newest first.',
  schema: Type.Integer({ minimum: 1, maximum: limits.usageDaysMax, default: limits.usageDaysMax }),
};

const answer = (description: string, schema: string): Operation['response'] => ({
  description,
  media: [{ type: 'application/json', schema }],
});

export const accountResource: Resource = {
  tag: 'Account',
  description: "The caller's own account.",
  schemas: {
    Balance: balanceSchema,
    DayUsage: dayUsageSchema,
    UsageList: usageListSchema,
    Advice: adviceSchema,
    AdviceList: adviceListSchema,
  },
  operations: [
    {
      ...common,
      path: '/v1/users/{user}/balance',
      id: 'getBalance',
      summary: 'Get the balance, in tokens',
      parameters: [user],
      response: answer('The balance.', 'Balance'),
      errors: ['otherUser'],
    },
    {
      ...common,
      path: '/v1/users/{user}/usage',
      id: 'getUsage',
      summary: 'Get what was used, by day',
      description:
        'The newest day first; days on which nothing was used are left out, but for today.',
      parameters: [user, usageDays],
      response: answer('The days.', 'UsageList'),
      errors: ['otherUser'],
    },
    {
      ...common,
      path: '/v1/users/{user}/advice',
      id: 'getAdvice',
      summary: 'Get the places at which prompts part again and again',
      description:
        'A clock or a counter near the beginning of a prompt keeps all behind it from being reused. The dearest first, of today.',
      parameters: [user],
      response: answer('The places.', 'AdviceList'),
      errors: ['otherUser'],
    },
  ],
};
