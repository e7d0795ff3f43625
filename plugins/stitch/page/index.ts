import type { Context } from 'koa'
import { type Host, staticPage } from 'rowhouse'

const part = (name: string): URL => new URL(`./assets/${name}`, import.meta.url)

const html = (assets: string) => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>GraphQL of all schemas - Rowhouse</title>
<link rel="stylesheet" href="${assets}/graphiql.css">
<link rel="stylesheet" href="${assets}/page.css">
</head>
<body>
<div id="graphiql">Loading ...</div>
<script src="${assets}/react.js"></script>
<script src="${assets}/react-dom.js"></script>
<script src="${assets}/graphiql.js"></script>
<script src="${assets}/page.js"></script>
</body>
</html>
`

const STYLE = 'html, body, #graphiql { height: 100%; margin: 0 }\n'

const SCRIPT = `const { createElement } = React
const query = \`# Several schemas as one. Credentials that they want go into "Headers" below, as far as they are passed on.
# Ctrl-Space completes, Ctrl-Enter runs.

{
  __typename
}
\`
ReactDOM.createRoot(document.getElementById('graphiql')).render(
  createElement(GraphiQL, {
    fetcher: GraphiQL.createFetcher({ url: location.pathname }),
    defaultEditorToolsVisibility: 'headers',
    defaultQuery: query,
    shouldPersistHeaders: false,
  }),
)
`

/** GraphiQL, for browsers that open the endpoint. */
export function graphiql(router: Host['router'], path: string): (ctx: Context) => void {
  const assets = `${path}/assets`
  return staticPage(router, {
    html: html(assets),
    assets,
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
