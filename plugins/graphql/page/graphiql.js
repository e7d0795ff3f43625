import { explorerPlugin } from '@graphiql/plugin-explorer'
import { ToolbarButton, useEditorContext } from '@graphiql/react'
import { createGraphiQLFetcher } from '@graphiql/toolkit'
import { GraphiQL } from 'graphiql'
import { createElement } from 'react'
import { createRoot } from 'react-dom/client'
import { firstQuery } from './first-query.js'
import '@graphiql/react/dist/style.css'
import 'graphiql/src/style.css'
import '@graphiql/plugin-explorer/dist/style.css'
import './graphiql.css'

/** Starts GraphiQL in the page that has the element `graphiql`. Its data attributes say what the address offers. */
async function start() {
  const root = document.getElementById('graphiql')
  const caller = 'console' in root.dataset ? await consoleCaller() : undefined
  const { headers, hint } = root.dataset
  const fetcher = fetcherFor(caller?.headers)
  createRoot(root).render(
    createElement(
      GraphiQL,
      {
        fetcher,
        plugins: [explorerPlugin({ showAttribution: false })],
        defaultEditorToolsVisibility: caller ? false : 'headers',
        defaultHeaders: caller ? undefined : headers,
        defaultQuery: `${caller ? '' : `# ${hint}\n`}# Ctrl-Space completes, Ctrl-Enter runs.\n\n${await firstQuery(fetcher)}`,
        shouldPersistHeaders: false,
        showPersistHeadersSettings: false,
        toolbar: caller?.isAdmin && window !== top ? { additionalComponent: Explain } : undefined,
      },
      createElement(
        GraphiQL.Logo,
        null,
        caller && window === top ? `Signed in as ${caller.headers['X-Service-Role']}` : ' ',
      ),
    ),
  )
}

/** A button that has the console around this page explain the request. */
function Explain() {
  const { queryEditor, variableEditor } = useEditorContext({ nonNull: true })
  const explain = () => {
    const request = { query: queryEditor?.getValue(), variables: variableEditor?.getValue() }
    const operationName = queryEditor?.operationName ?? undefined
    parent.postMessage({ type: 'rowhouse-explain', ...request, operationName }, location.origin)
  }
  return createElement(ToolbarButton, { label: 'Explain: the SQL and its plan', onClick: explain }, 'SQL')
}

/** Returns the caller whom the console knows and the headers of its requests; undefined if nobody is signed in, or without a console. */
async function consoleCaller() {
  const response = await fetch('/console/session').catch(() => undefined)
  if (!response?.ok) return undefined
  const session = await response.json()
  if (!session.signed_in) return undefined
  const acting = JSON.parse(sessionStorage.getItem('rowhouse-acting') ?? 'null')
  const headers = { 'X-Service-Role': acting?.role ?? session.role, ...acting?.variables }
  return { headers, isAdmin: session.role === 'admin' }
}

/** Returns a fetcher that sends the headers of the caller, and those that somebody filled in. */
function fetcherFor(known) {
  const send = createGraphiQLFetcher({ url: location.pathname })
  return (request, options = {}) => {
    const given = Object.entries(options.headers ?? {}).filter(([, value]) => value !== '')
    return send(request, { ...options, headers: { ...known, ...Object.fromEntries(given) } })
  }
}

void start()
