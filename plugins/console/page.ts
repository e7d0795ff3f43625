import { readdirSync } from 'node:fs'
import { type Host, staticPage } from 'rowhouse'

const ASSETS = '/console/assets'
const FOLDER = new URL('./assets/', import.meta.url)

/** @param nonce for the style sheets that CodeMirror adds */
const html = (nonce: string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="csp-nonce" content="${nonce}">
<title>Rowhouse</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${ASSETS}/main.css">
<script type="module" src="${ASSETS}/main.js"></script>
</head>
<body>
<noscript><p>The console needs JavaScript.</p></noscript>
</body>
</html>
`

/** Serves the console. The browser shows the panel that the rest of the path names. */
export function consolePage(router: Host['router']): void {
  const page = staticPage(router, {
    html,
    assets: ASSETS,
    files: Object.fromEntries(readdirSync(FOLDER).map((name) => [name, new URL(name, FOLDER)])),
  })
  router.get('/console', page)
  router.get('/console/{*path}', page)
}
