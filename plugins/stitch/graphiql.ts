import type { Context } from 'koa'
import { type Host, staticPage } from 'rowhouse'

const SCRIPT = `const query = \`# Put credentials under "Headers" below. Only headers listed in forwardHeaders reach a schema.
# Ctrl-Space completes, Ctrl-Enter runs.

{
  __typename
}
\`
ReactDOM.createRoot(document.getElementById('graphiql')).render(
  React.createElement(GraphiQL, {
    fetcher: GraphiQL.createFetcher({ url: location.pathname }),
    defaultEditorToolsVisibility: 'headers',
    defaultQuery: query,
    shouldPersistHeaders: false,
  }),
)
`

/** The graphql plugin serves the same files, and every build contains both plugins. */
const part = (name: string): URL => new URL(`../graphql/page/assets/${name}`, import.meta.url)

/** Returns a handler that serves GraphiQL to browsers. */
export function graphiql(router: Host['router'], path: string): (ctx: Context) => void {
  const assets = `${path}/assets`
  return staticPage(router, {
    assets,
    html: `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>GraphQL of all schemas - Rowhouse</title>
<link rel="stylesheet" href="${assets}/graphiql.css">
<style>html, body, #graphiql { height: 100%; margin: 0 }</style>
</head>
<body>
<div id="graphiql">Loading ...</div>
${['react', 'react-dom', 'graphiql', 'page'].map((name) => `<script src="${assets}/${name}.js"></script>`).join('\n')}
</body>
</html>
`,
    files: {
      'graphiql.css': part('graphiql.min.css'),
      'graphiql.js': part('graphiql.min.js'),
      'react.js': part('react.production.min.js'),
      'react-dom.js': part('react-dom.production.min.js'),
      'page.js': SCRIPT,
    },
  })
}
