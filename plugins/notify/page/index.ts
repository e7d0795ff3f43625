import { type Host, staticPage } from 'rowhouse'

const ASSETS = '/v1/send/assets'
const FILES = ['messages.css', 'messages.js', 'message.js', 'api.js', 'dom.js']

const HTML = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Messages - Rowhouse</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${ASSETS}/messages.css">
</head>
<body>
<header>
<h1><a href="/">Rowhouse</a> Messages</h1>
<form id="credentials">
<label for="secret">Admin secret</label>
<input id="secret" type="password" autocomplete="off" spellcheck="false" aria-describedby="refusal">
<button>Show messages</button>
</form>
<p id="known" hidden>The secret is kept until you close this tab. <button id="forget" type="button" class="quiet">Sign out</button></p>
</header>
<p id="refusal" class="bad" role="alert"></p>
<p id="about" class="soft">All emails and SMS messages, with their states. Enter the admin secret to see them. In development, it is in <code>.rowhouse/admin-secret</code>.</p>
<noscript><p class="bad">This page needs JavaScript.</p></noscript>
<main id="messages" hidden>
<section id="all" aria-label="All messages">
<form id="filters" role="search">
<label>Search <input id="search" type="search" autocomplete="off" placeholder="address, subject, id"></label>
<label>State <select id="state">
<option value="">any</option>
<option>queued</option>
<option>sending</option>
<option>sent</option>
<option>failed</option>
<option>unknown</option>
</select></label>
<label>Kind <select id="kind">
<option value="">any</option>
<option value="email">email</option>
<option value="email-template">email template</option>
<option value="sms">SMS</option>
</select></label>
</form>
<p id="count" class="soft" role="status"></p>
<p id="trouble" class="bad" role="status"></p>
<ul id="list"></ul>
<button id="older" type="button" hidden>Older messages</button>
<div id="nothing"></div>
</section>
<article id="one" aria-label="Message" hidden></article>
</main>
<script type="module" src="${ASSETS}/messages.js"></script>
</body>
</html>
`

/** Serves a page that shows the messages to an admin. It calls the API with the secret that the admin enters. */
export function messagesPage(router: Host['router']): ReturnType<typeof staticPage> {
  return staticPage(router, {
    html: HTML,
    assets: ASSETS,
    files: Object.fromEntries(FILES.map((name) => [name, new URL(`./assets/${name}`, import.meta.url)])),
  })
}
