/** Owns the proof of how a chat may name its cache, and of the words for what it may not say. */
import t from 'tap';
import {
  readCacheHeaders,
  readCacheMessage,
  withUseHeaders,
} from '../../src/protocol/cache-options.js';

const headers = (values: Readonly<Record<string, string>>) => (name: string) => values[name];

t.test('without its headers a chat wants no cache', async (t) => {
  t.equal(readCacheHeaders(headers({})), null);
  t.equal(readCacheHeaders(headers({ 'x-svc-context-cache-reset-ttl': '60' })), null);
});

t.test('the headers name cache, dry run and time to live', async (t) => {
  const values = {
    'x-svc-context-cache': 'cache-a',
    'x-svc-context-cache-dryrun': '1',
    'x-svc-context-cache-reset-ttl': '3600',
  };
  t.same(readCacheHeaders(headers(values)), {
    name: { type: 'id', id: 'cache-a' },
    mode: 'header',
    dryRun: true,
    resetTtlS: 3600,
  });
});

t.test('a dry run that names no cache is still a dry run', async (t) => {
  t.match(readCacheHeaders(headers({ 'x-svc-context-cache-dryrun': '1' })), {
    name: null,
    dryRun: true,
  });
});

for (const [name, value] of [
  ['dryrun', 'yes'],
  ['dryrun', '2'],
  ['dryrun', ''],
  ['reset-ttl', ''],
  ['reset-ttl', '0'],
  ['reset-ttl', '3601'],
  ['reset-ttl', '-1'],
  ['reset-ttl', '1.5'],
  ['reset-ttl', '1e3'],
] as const) {
  t.test(`header ${name} cannot be ${value}`, async (t) => {
    const values = { 'x-svc-context-cache': 'c', [`x-svc-context-cache-${name}`]: value };
    t.throws(() => readCacheHeaders(headers(values)), { status: 400, message: /Context-Cache/ });
  });
}

t.test('the message holds its options in any order', async (t) => {
  const options = readCacheMessage('dry_run=0;reset_ttl=60;tag=handbook');
  t.same(options, {
    name: { type: 'tag', tag: 'handbook' },
    dryRun: false,
    resetTtlS: 60,
  });
  t.match(readCacheMessage('cache_id=cache-a'), { name: { type: 'id', id: 'cache-a' } });
});

t.test('what the message leaves out the headers say, except the name', async (t) => {
  const values = {
    'x-svc-context-cache': 'cache-b',
    'x-svc-context-cache-dryrun': '1',
    'x-svc-context-cache-reset-ttl': '3600',
  };
  const name = { type: 'tag', tag: 'a' };
  for (const [content, dryRun, resetTtlS] of [
    ['tag=a', true, 3600],
    ['tag=a;dry_run=0', false, 3600],
    ['tag=a;reset_ttl=60', true, 60],
  ] as const) {
    const options = withUseHeaders(readCacheMessage(content), headers(values));
    t.same(options, { name, mode: 'message', dryRun, resetTtlS }, content);
  }
  const plain = withUseHeaders(readCacheMessage('tag=a'), headers({}));
  t.match(plain, { dryRun: false, resetTtlS: null });
});

for (const [content, message] of [
  ['', /joined by ';', got ''/],
  ['cache_id=a;', /got ''/],
  ['cache_id=a;cache_id=b', /cache_id twice/],
  ['cache_id=a;tag=b', /got both/],
  ['dry_run=1', /got neither/],
  ['cache_id=', /cache_id in .* must not be empty/],
  ['cache_id=a;ttl=60', /got 'ttl=60'/],
  ['cache_id=a;dry_run=true', /dry_run in .* must be 0 or 1, got 'true'/],
  ['tag=a;reset_ttl=4000', /reset_ttl in .* must be an integer in \[1, 3600\], got '4000'/],
] as const) {
  t.test(`the message cannot be ${JSON.stringify(content)}`, async (t) => {
    const extra = { param: 'messages[0].content' };
    t.throws(() => readCacheMessage(content), { status: 400, message, extra });
  });
}
