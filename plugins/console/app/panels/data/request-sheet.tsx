import { useState } from 'preact/hooks'
import type { Table } from '../../catalog.js'
import { isAdmin } from '../../session.js'
import { curlOf, fetchOf } from '../../program.js'
import { Code } from '../../ui/code.js'
import { Explanation, explainQuery } from '../../ui/explanation.js'
import { Tabs } from '../../ui/tabs.js'
import { graphqlOf, programOf, requestOf, viewKey } from './request-forms.js'
import { Sheet } from './sheet.js'
import type { View } from './view.js'

type Form = 'json' | 'graphql' | 'curl' | 'fetch' | 'plan'

/** The request of a view in all forms, with what PostgreSQL makes of it. */
export function RequestSheet({
  table,
  view,
  timing,
  close,
}: {
  readonly table: Table
  readonly view: View
  readonly timing: { readonly ms: number; readonly rows: number } | undefined
  readonly close: () => void
}) {
  const [form, setForm] = useState<Form>('json')
  const tabs = [
    { key: 'json', title: 'JSON' },
    { key: 'graphql', title: 'GraphQL' },
    { key: 'curl', title: 'curl' },
    { key: 'fetch', title: 'fetch' },
    ...(isAdmin.value ? [{ key: 'plan', title: 'SQL, plan' } as const] : []),
  ] as const
  return (
    <Sheet title="Request" close={close}>
      <Tabs label="Forms of the request" tabs={tabs} chosen={form} onChoose={setForm} />
      <div class="request">
        {form === 'plan' ? (
          <Explanation key={viewKey(view)} explain={explainQuery(requestOf(table, view))} />
        ) : (
          <RequestText form={form} table={table} view={view} />
        )}
      </div>
      {timing && (
        <p class="soft">
          The last page had {timing.rows} rows and took {Math.round(timing.ms)} ms, with the way to the browser.
        </p>
      )}
    </Sheet>
  )
}

function RequestText({
  form,
  table,
  view,
}: {
  readonly form: Exclude<Form, 'plan'>
  readonly table: Table
  readonly view: View
}) {
  const request = requestOf(table, view)
  switch (form) {
    case 'json':
      return (
        <>
          <p class="soft">
            <code>POST /v1/query</code>
          </p>
          <Code label="Request as JSON" text={JSON.stringify(request, null, 2)} />
        </>
      )
    case 'graphql':
      return <GraphQL table={table} view={view} />
    case 'curl':
      return (
        <>
          <p class="soft">
            The shell variable <code>{isAdmin.value ? 'ADMIN_SECRET' : 'TOKEN'}</code> holds your credential.
          </p>
          <Code label="Request for curl" text={curlOf(programOf(request))} />
        </>
      )
    case 'fetch':
      return <Code label="Request for fetch" text={fetchOf(programOf(request))} />
  }
}

function GraphQL({ table, view }: { readonly table: Table; readonly view: View }) {
  let text: string
  try {
    text = graphqlOf(table, view)
  } catch (error) {
    return <p class="empty">{error instanceof Error ? error.message : String(error)}.</p>
  }
  return (
    <>
      <p class="soft">
        <code>POST /v1/graphql</code>, unless names were customized.
      </p>
      <Code label="Request as GraphQL" text={text} />
    </>
  )
}
