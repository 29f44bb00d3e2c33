/** The page of a guide: what Markdown of this package becomes, and that none of it can be markup of its own. */
import t from 'tap';
import { GUIDE_INDEX, guidePage } from '../../src/protocol/guide-page.js';

const markdown = `# The \`quay\`

A [list](${GUIDE_INDEX}.md), [another](ship.md#at-sea), [the API](../../http/README.md#chat), [below](#below).

<!-- a remark
-->

<script>alert(1)</script>

<!-- --> <script>alert(2)</script>

A <i>word</i>, ![a picture](x.png) [not](javascript:alert(1)) [there](gone.md)

## Below

| a | b |
|---|---|
| 1 | \`<b>\` |

## Below

\`\`\`sh
echo "<i>"
\`\`\`
`;
const guide = { name: 'quay', markdown };
const guides = [
  { name: GUIDE_INDEX, markdown: '# Guides\n' },
  { name: 'ship', markdown: '# Ships & <sails>\n\n## At sea\n' },
  guide,
];
const page = guidePage(guide, guides);

t.test(
  'links lead to pages of this server; what lies in the repository alone is named',
  async (t) => {
    t.match(page, '<a href="/docs/guides">list</a>');
    t.match(page, '<a href="/docs/guides/ship#at-sea">another</a>');
    t.match(page, 'the API (<code>src/http/README.md</code>)');
    t.match(page, '<a href="#below">below</a>');
    t.match(page, 'there (<code>src/pages/guides/gone.md</code>)');
    const addresses = [...page.matchAll(/ href="([^"]*)"/g)].map(([, address]) => address);
    t.ok(addresses.length > 5);
    for (const address of addresses) t.match(address, /^(?:\/docs|#)/);
  },
);

t.test('markup in a guide is text, and code stays code', async (t) => {
  t.notMatch(page, /<script|<img|<i>|<b>/);
  t.match(page, '&lt;script&gt;alert(1)');
  t.match(page, '&lt;script&gt;alert(2)');
  t.notMatch(page, 'a remark', 'what is for those who edit it is left out');
  t.match(page, 'not (<code>javascript:alert(1)</code>)');
  t.match(page, '<code class="language-sh">echo &quot;&lt;i&gt;&quot;');
  t.match(page, '<td><code>&lt;b&gt;</code></td>');
});

t.test('headings have the anchors that GitHub gives them', async (t) => {
  t.same(
    [...page.matchAll(/<h\d id="([^"]+)"/g)].map(([, id]) => id),
    ['the-quay', 'below', 'below-1'],
  );
});

t.test(
  'the list names the others by their first line, and marks the one that is shown',
  async (t) => {
    t.match(page, '<title>The quay – preface</title>');
    t.match(page, '<a href="/docs/guides/ship">Ships &amp; &lt;sails&gt;</a>');
    t.match(page, '<a href="/docs/guides/quay" aria-current="page">The quay</a>');
    t.equal(page.match(/aria-current/g)?.length, 1);
  },
);
