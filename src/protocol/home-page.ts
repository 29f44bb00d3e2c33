/**
 * Owns the page at the address of the service, for a person who opens it: what runs here, and the first steps.
 * It must never show what needs a key.
 */
import { type Html, html } from './html.js';

export interface HomeFacts {
  readonly version: string;
  /** Ids, as `/openapi.json` names them. */
  readonly models: readonly string[];
  /** There is a key that opens the console. */
  readonly hasConsole: boolean;
}

/** @param address of this server, without a path. */
export function homePage(address: string, { version, models, hasConsole }: HomeFacts): string {
  const console = hasConsole
    ? html`<a href="/console">Console</a>: figures, requests, caches, files, users, models and the log.`
    : html`<a href="/console">Console</a>: it has no admin key yet; the page says how to make one.`;
  return page(
    'preface',
    html`<h1>preface <small>${version}</small></h1>
<p>The service is running. ${models.length === 0 ? 'It has no model yet.' : 'Its models:'}</p>
<ul>${models.map((id) => html`<li><code>${id}</code></li>`)}</ul>
<h2>Look around</h2>
<ul>
<li><a href="/docs">API reference</a>, and the same for programs: <a href="/openapi.json">openapi.json</a>.</li>
<li><a href="/docs/guides">Guides</a>: other people's programs on this server, and what caches save.</li>
<li><a href="/playground">Playground</a>: chats without and with a cache, and the code for them.</li>
<li>${console}</li>
<li><a href="/ready">Readiness</a>, for balancers.</li>
</ul>
<h2>Quick start</h2>
<p>With the API key that the first start printed, or one of <code>preface keys create --user NAME</code>:</p>
<pre><code>${quickStart(address, models[0] ?? 'svc-v1-8k')}</code></pre>
<p>Every OpenAI client works with this base URL and key.</p>`,
  );
}

export function noConsolePage(): string {
  return page(
    'preface console',
    html`<h1>The console has no admin key yet</h1>
<p>Make one on the machine of the service. The console opens with it at once:</p>
<pre><code>npx preface keys create --admin</code></pre>
<p>Or start the service with a key of yours in <code>PREFACE_ADMIN_KEY</code>. Then reload this page.</p>
<p><a href="/">Back</a></p>`,
  );
}

function quickStart(address: string, model: string): string {
  return `export OPENAI_BASE_URL=${address}/v1 OPENAI_API_KEY=sk-default-…
curl -N $OPENAI_BASE_URL/chat/completions -H "Authorization: Bearer $OPENAI_API_KEY" -d '{
  "model": "${model}", "stream": true,
  "messages": [{"role": "user", "content": "Why is the sky blue?"}]}'`;
}

function page(title: string, body: Html): string {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<link rel="stylesheet" href="/home/style.css">
</head>
<body>
<main>
${body}
</main>
</body>
</html>
`.text;
}
