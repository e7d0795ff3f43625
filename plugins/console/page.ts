import { readdirSync } from 'node:fs'
import { type Host, staticPage } from 'rowhouse'

const ASSETS = '/console/assets'
const FOLDER = new URL('./assets/', import.meta.url)

/** @param nonce for the script, and for the style sheets that CodeMirror adds */
const html = (nonce: string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="csp-nonce" content="${nonce}">
<title>Rowhouse</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${ASSETS}/main.css">
<script type="module" nonce="${nonce}" src="${ASSETS}/main.js"></script>
</head>
<body>
<noscript><p>The console needs JavaScript.</p></noscript>
</body>
</html>
`

/**
 * A page in which the console shows HTML of others, in a sandboxed frame. That frame inherits this policy, which allows
 * inline styles and inline images, and no network, scripts and navigation.
 */
const FRAME = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Preview</title>
<style>html, body { height: 100%; margin: 0; background: #fff } iframe { display: block; width: 100%; height: 100%; border: 0 }</style>
<body></body>
</html>
`
const FRAME_POLICY =
  "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"

/** Serves the console. The browser shows the panel that the rest of the path names. */
export function consolePage(router: Host['router']): void {
  const page = staticPage(router, {
    html,
    assets: ASSETS,
    files: Object.fromEntries(readdirSync(FOLDER).map((name) => [name.replace(/\.br$/, ''), new URL(name, FOLDER)])),
  })
  router.get('/console/frame', (ctx) => {
    ctx.set('Content-Security-Policy', FRAME_POLICY)
    ctx.set('X-Content-Type-Options', 'nosniff')
    ctx.type = 'html'
    ctx.body = FRAME
  })
  router.get('/console', page)
  router.get('/console/{*path}', page)
}
