import type { Context } from 'koa'
import { type Host, staticPage } from 'rowhouse'

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
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${assets}/graphiql.css">
<script type="module" src="${assets}/graphiql.js"></script>
</head>
<body>
<div id="graphiql" data-hint="Put credentials under &quot;Headers&quot; below. Only headers listed in forwardHeaders reach a schema.">Loading ...</div>
</body>
</html>
`,
    files: { 'graphiql.css': part('graphiql.css.br'), 'graphiql.js': part('graphiql.js.br') },
  })
}
