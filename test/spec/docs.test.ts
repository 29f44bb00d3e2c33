/** The pages for readers, as a browser gets them. */
import t from 'tap';
import { openService } from '../support/service.js';

t.test('the API is shown by the server itself, to anyone, with nothing to run', async (t) => {
  const service = await openService(t);
  const response = await fetch(new URL('/docs', service.url));
  t.equal(response.status, 200);
  t.equal(response.headers.get('content-type'), 'text/html; charset=utf-8');
  t.match(
    response.headers.get('content-security-policy'),
    /^default-src 'none';.* style-src 'self'$/,
  );
  t.equal(response.headers.get('x-content-type-options'), 'nosniff');
  const page = await response.text();
  t.match(page, 'id="createChatCompletion"');
  const [, sheet = ''] = /<link rel="stylesheet" href="([^"]+)"/.exec(page) ?? [];
  const style = await fetch(new URL(sheet, new URL('/docs', service.url)));
  t.equal(style.status, 200);
  t.equal(style.headers.get('content-type'), 'text/css; charset=utf-8');
  t.equal((await fetch(new URL('/docs/../src/main.ts', service.url))).status, 404);
});
