import { type Host, staticPage } from 'rowhouse'

const ASSETS = '/v1/openapi/assets'
const part = (name: string): URL => new URL(`./assets/${name}`, import.meta.url)

const HTML = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Query templates - Rowhouse</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${ASSETS}/tokens.css">
<link rel="stylesheet" href="${ASSETS}/swagger-ui.css">
<link rel="stylesheet" href="${ASSETS}/page.css">
</head>
<body>
<form id="credentials" hidden>
<label>Admin secret <input name="secret" type="password" autocomplete="off"></label>
<label>or token <input name="token" type="password" autocomplete="off"></label>
<label>Role <input name="role" autocomplete="off"></label>
<label>User id <input name="user" autocomplete="off" size="6"></label>
<button>Show templates</button>
</form>
<p id="known" hidden>You are signed in at the <a href="/console/templates">console</a>. This page asks as <b id="caller"></b>.</p>
<p id="refusal" role="alert"></p>
<div id="page"></div>
<script src="${ASSETS}/swagger-ui.js"></script>
<script src="${ASSETS}/page.js"></script>
</body>
</html>
`

/** Serves Swagger UI for the templates. */
export function openApiPage(router: Host['router']): void {
  const page = staticPage(router, {
    html: HTML,
    assets: ASSETS,
    files: {
      'swagger-ui.css': part('swagger-ui.css.br'),
      'swagger-ui.js': part('swagger-ui-bundle.js.br'),
      'tokens.css': new URL('../../../core/http/tokens.css', import.meta.url),
      'page.css': part('page.css'),
      'page.js': part('page.js'),
    },
  })
  router.get('/v1/openapi', page)
}
