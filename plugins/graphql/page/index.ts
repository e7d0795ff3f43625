import type { Context } from 'koa'
import { type Host, staticPage } from 'rowhouse'

const ASSETS = '/v1/graphql/assets'
const part = (name: string): URL => new URL(`./assets/${name}`, import.meta.url)

const HTML = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>GraphQL - Rowhouse</title>
<link rel="stylesheet" href="${ASSETS}/graphiql.css">
<link rel="stylesheet" href="${ASSETS}/page.css">
</head>
<body>
<div id="graphiql">Loading ...</div>
<script src="${ASSETS}/react.js"></script>
<script src="${ASSETS}/react-dom.js"></script>
<script src="${ASSETS}/graphiql.js"></script>
<script src="${ASSETS}/page.js"></script>
</body>
</html>
`

const STYLE = 'html, body, #graphiql { height: 100%; margin: 0 }\n'

const SCRIPT = `const { createElement } = React
const headers = JSON.stringify({ 'X-Service-Admin-Secret': '', Authorization: '', 'X-Service-Role': '', 'X-Service-User-Id': '' }, null, 2)
const query = \`# Put credentials under "Headers" below.
# Then reload the schema with the round arrow.
#
# Ctrl-Space completes, Ctrl-Enter runs.

{
  __typename
}
\`
const send = GraphiQL.createFetcher({ url: location.pathname })
function fetcher(request, options = {}) {
  // Empty headers are not sent.
  const given = Object.entries(options.headers ?? {}).filter(([, value]) => value !== '')
  return send(request, { ...options, headers: Object.fromEntries(given) })
}
ReactDOM.createRoot(document.getElementById('graphiql')).render(
  createElement(GraphiQL, {
    fetcher,
    defaultEditorToolsVisibility: 'headers',
    defaultHeaders: headers,
    defaultQuery: query,
    shouldPersistHeaders: false,
  }),
)
`

/** Returns a handler that serves GraphiQL to browsers. */
export function graphiql(router: Host['router']): (ctx: Context) => void {
  return staticPage(router, {
    html: HTML,
    assets: ASSETS,
    files: {
      'graphiql.css': part('graphiql.min.css'),
      'graphiql.js': part('graphiql.min.js'),
      'react.js': part('react.production.min.js'),
      'react-dom.js': part('react-dom.production.min.js'),
      'page.css': STYLE,
      'page.js': SCRIPT,
    },
  })
}
