/** The page a reader gets: nothing of the document is missing, and no text of it can become markup. */
import t from 'tap';
import { resources } from '../../src/protocol/chat-api.js';
import { docsPage } from '../../src/protocol/docs-page.js';
import { html, prose } from '../../src/protocol/html.js';
import { openApiDocument } from '../../src/protocol/openapi.js';

const document = openApiDocument('1.2.3', resources(['svc-v1-8k'], ['svc-v1'])) as {
  readonly paths: Readonly<
    Record<string, Readonly<Record<string, { readonly operationId: string }>>>
  >;
  readonly components: { readonly schemas: Readonly<Record<string, object>> };
};

t.test('each operation and each schema has its place, and each link leads to one', async (t) => {
  const page = docsPage(document);
  const ids = new Set([...page.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id));
  for (const item of Object.values(document.paths)) {
    for (const { operationId } of Object.values(item)) t.ok(ids.has(operationId), operationId);
  }
  for (const name of Object.keys(document.components.schemas))
    t.ok(ids.has(`schema-${name}`), name);
  for (const [, target = ''] of page.matchAll(/ href="#([^"]+)"/g)) t.ok(ids.has(target), target);
});

t.test('bounds, defaults and what may be null are shown', async (t) => {
  const page = docsPage(document);
  const list = page.slice(page.indexOf('id="listCaches"'), page.indexOf('id="getCache"'));
  t.match(list, /at least <code>1<\/code>/);
  t.match(list, /at most <code>100<\/code>/);
  t.match(list, /default <code>20<\/code>/);
  t.match(page, /boolean or null/);
});

t.test('the page needs nothing but its style sheet and runs nothing', async (t) => {
  const page = docsPage(document);
  t.notMatch(page, /<script|<img|<iframe| style=| on[a-z]+=/i);
  const loaded = [...page.matchAll(/<link[^>]*href="([^"]+)"/g)].map(([, address]) => address);
  t.same(loaded, ['docs/style.css']);
});

t.test('a value is text, whatever it holds', async (t) => {
  const hostile = `<img src=x onerror="alert('1')">&amp;`;
  const shown = '&lt;img src=x onerror=&quot;alert(&#39;1&#39;)&quot;&gt;&amp;amp;';
  t.equal(html`<p>${hostile}</p>`.text, `<p>${shown}</p>`);
  t.equal(prose(`a \`${hostile}\``).text, `a <code>${shown}</code>`);
  t.equal(html`${[html`<b>${1}</b>`, html`${null}`]}`.text, '<b>1</b>\n');
});
