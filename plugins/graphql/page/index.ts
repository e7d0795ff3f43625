import type { Context } from 'koa'
import { type Host, staticPage } from 'rowhouse'

const ASSETS = '/v1/graphql/assets'
const part = (name: string): URL => new URL(`./assets/${name}`, import.meta.url)

/** The page sends what the console knows of the caller, and otherwise the headers that somebody fills in. */
const HTML = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>GraphQL - Rowhouse</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${ASSETS}/graphiql.css">
<script type="module" src="${ASSETS}/graphiql.js"></script>
</head>
<body>
<div id="graphiql" data-console data-hint="Put credentials under &quot;Headers&quot; below, then reload the schema with the round arrow."
  data-headers='{
  "X-Service-Admin-Secret": "",
  "Authorization": "",
  "X-Service-Role": "",
  "X-Service-User-Id": ""
}'>Loading ...</div>
</body>
</html>
`

/** Returns a handler that serves GraphiQL to browsers. */
export function graphiql(router: Host['router']): (ctx: Context) => void {
  return staticPage(router, {
    html: HTML,
    assets: ASSETS,
    files: { 'graphiql.css': part('graphiql.css.br'), 'graphiql.js': part('graphiql.js.br') },
  })
}
