import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'

/** What the page shows besides the facts of the HTTP front. */
export interface About {
  readonly version: string
  /** Tells builds of one version apart. */
  readonly build: string
  readonly database: 'up' | 'down' | 'none'
  readonly links: readonly Link[]
}

/** A page of a plugin. */
export interface Link {
  readonly title: string
  /** A path of this server or a full URL. */
  readonly href: string
  /** Whether the console shows it, too. */
  readonly panel?: boolean
}

interface PageFacts extends About {
  readonly plugins: readonly {
    readonly name: string
    readonly routes: readonly { readonly methods: readonly string[]; readonly path: string }[]
  }[]
}

const STYLE = `${readFileSync(new URL('./tokens.css', import.meta.url), 'utf8')}
* { box-sizing: border-box }
body { margin: 0; background: var(--paper); color: var(--ink); font: 1rem/1.6 system-ui, sans-serif }
main { max-width: 46rem; margin: 0 auto; padding: 3rem 1.25rem 4rem }
h1 { margin: 0; font-size: 2rem; letter-spacing: -.02em }
h2 { margin: 2.5rem 0 .75rem; font-size: 1.1rem }
h3 { margin: 0 0 .5rem; font-size: 1rem }
p { margin: .25rem 0 }
a { color: var(--brick); text-underline-offset: .2em }
a:focus-visible { outline: 3px solid var(--brick); outline-offset: 3px; border-radius: 2px }
code { font: .9em/1.5 ui-monospace, monospace; overflow-wrap: anywhere }
.soft { color: var(--soft) }
.up { color: var(--good); font-weight: 600 }
.down { color: var(--bad); font-weight: 600 }
.links { display: flex; flex-wrap: wrap; gap: .5rem 1.5rem; margin: 0; padding: 0; list-style: none }
.plugin { margin: 0 0 .75rem; padding: 1rem 1.25rem; background: var(--card); border: 1px solid var(--line); border-radius: .6rem }
.routes { margin: 0; padding: 0; list-style: none }
.method { display: inline-block; min-width: 4.5em; color: var(--soft) }
`

/** Content security policy of the page: only its own style sheet. */
export const PAGE_POLICY = `default-src 'none'; style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`

/** Renders the page at `/`, which shows the plugins and their routes. */
export function page({ version, database, links, plugins }: PageFacts): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Rowhouse</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>Rowhouse</h1>
<p class="soft">Version ${escapeHtml(version)}</p>
${database === 'none' ? '<p class="soft">No plugin here needs a database.</p>' : `<p>PostgreSQL is <span class="${database}">${database}</span>.</p>`}
<h2>Look closer</h2>
<ul class="links">
${[...links, ...OWN_LINKS].map(({ title, href }) => `<li><a href="${escapeHtml(href)}">${escapeHtml(title)}</a></li>`).join('\n')}
</ul>
<h2>Plugins</h2>
${plugins.map(pluginCard).join('\n') || '<p class="soft">No plugin has routes here.</p>'}
</main>
</body>
</html>
`
}

const OWN_LINKS = [
  { title: 'Health', href: '/healthz' },
  { title: 'Readiness', href: '/readyz' },
  { title: 'Metrics', href: '/metrics' },
  { title: 'Version', href: '/v1/version' },
]

function pluginCard({ name, routes }: PageFacts['plugins'][number]): string {
  const lines = routes.flatMap(({ methods, path }) => {
    const shown = methods.length > 5 ? ['any'] : methods
    return shown.map((method) => `<li><code><span class="method">${method}</span> ${escapeHtml(path)}</code></li>`)
  })
  return `<section class="plugin" aria-labelledby="plugin-${escapeHtml(name)}">
<h3 id="plugin-${escapeHtml(name)}">${escapeHtml(name)}</h3>
${lines.length === 0 ? '<p class="soft">No routes of its own.</p>' : `<ul class="routes">\n${lines.join('\n')}\n</ul>`}
</section>`
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Escapes text for HTML, inside attributes too. */
export const escapeHtml = (text: string): string => text.replaceAll(/[&<>"']/g, (character) => ENTITIES[character]!)
