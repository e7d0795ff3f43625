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
const headers = JSON.stringify({ 'X-Service-Admin-Secret': '', 'X-Service-Role': 'admin' }, null, 2)
const query = \`# Put your credentials into "Headers" below, then reload the schema (the round arrow on the left).
# The schema is that of your role: an empty one means that the role may read nothing.
#
# Ctrl-Space completes, Ctrl-Enter runs.

{
  __typename
}
\`
ReactDOM.createRoot(document.getElementById('graphiql')).render(
  createElement(GraphiQL, {
    fetcher: GraphiQL.createFetcher({ url: location.pathname }),
    defaultEditorToolsVisibility: 'headers',
    defaultHeaders: headers,
    defaultQuery: query,
    shouldPersistHeaders: false,
  }),
)
`

/** GraphiQL, for browsers that open the endpoint. */
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
