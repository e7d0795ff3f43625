import { useEffect, useState } from 'preact/hooks'
import { useLocation, useRoute } from 'preact-iso'
import { recovered } from '../../api.js'
import { useLint } from '../../lint.js'
import { isAdmin, role } from '../../session.js'
import { Problem } from '../../ui/problem.js'
import { Definition } from './definition.js'
import { OpenApi } from './openapi.js'
import { readTemplates, type Template } from './templates.js'
import { TemplateView } from './template-view.js'

/** Query templates, and a view of one of them: `/console/templates/late_orders?view=calls`. */
export default function Templates() {
  const { rest = '' } = useRoute() as { readonly rest?: string }
  const { query, route } = useLocation()
  const name = textOf(rest.replace(/^\//, ''))
  const [templates, setTemplates] = useState<readonly Template[]>()
  const [failure, setFailure] = useState<unknown>()
  const [version, setVersion] = useState(0)
  const isRecovered = recovered.value
  useEffect(() => {
    const reading = new AbortController()
    setFailure(undefined)
    readTemplates(reading.signal)
      .then(setTemplates)
      .catch((error: unknown) => {
        if (!reading.signal.aborted) setFailure(error)
      })
    return () => reading.abort()
  }, [version, isRecovered])
  useLint(isAdmin.value ? templates : undefined)
  const changed = (now: string) => {
    setVersion(version + 1)
    if (now !== name || 'new' in query) route(pathOf(now, now === '' ? undefined : query['view']), true)
  }
  if (failure !== undefined && !templates) return <Problem of={failure} />
  if (!templates) return <p class="wait">Loading …</p>
  const template = templates.find((each) => each.name === name)
  return (
    <div class="split">
      <TemplateList templates={templates} chosen={name} />
      <div class="page">
        {failure !== undefined && <Problem of={failure} />}
        {template ? (
          <TemplateView
            key={name}
            template={template}
            wanted={query['view'] ?? ''}
            onView={(view) => route(pathOf(name, view))}
            changed={changed}
          />
        ) : 'new' in query && isAdmin.value ? (
          <NewTemplate changed={changed} />
        ) : 'openapi' in query ? (
          <OpenApi place="" />
        ) : (
          <Nothing name={name} isEmpty={templates.length === 0} />
        )}
      </div>
    </div>
  )
}

function pathOf(name: string, view = 'run'): string {
  const path = name === '' ? '/console/templates' : `/console/templates/${encodeURIComponent(name)}`
  return view === 'run' ? path : `${path}?view=${encodeURIComponent(view)}`
}

/** Decodes a part of an address, which a user may have written. */
function textOf(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

function TemplateList({ templates, chosen }: { readonly templates: readonly Template[]; readonly chosen: string }) {
  const [search, setSearch] = useState('')
  const { query } = useLocation()
  const wanted = search.trim().toLowerCase()
  const shown = templates.filter(({ name, comment }) => `${name}\n${comment}`.toLowerCase().includes(wanted))
  return (
    <aside class="side template-list" aria-label="Templates">
      <input
        type="search"
        aria-label="Search templates"
        placeholder="Search templates"
        value={search}
        onInput={({ currentTarget }) => setSearch(currentTarget.value)}
      />
      <ul>
        {shown.map(({ name, comment, runnable }) => (
          <li key={name}>
            <a href={pathOf(name)} aria-current={name === chosen ? 'page' : undefined} title={comment}>
              <span class={runnable ? 'name' : 'name soft'}>{name}</span>
              <span class="count">{runnable?.type ?? 'not runnable'}</span>
            </a>
          </li>
        ))}
      </ul>
      {shown.length === 0 && templates.length > 0 && <p class="soft">No template matches.</p>}
      <p class="row">
        {isAdmin.value && <a href="/console/templates?new">New template</a>}
        <a href="/console/templates?openapi" aria-current={'openapi' in query && chosen === '' ? 'page' : undefined}>
          OpenAPI
        </a>
      </p>
    </aside>
  )
}

function Nothing({ name, isEmpty }: { readonly name: string; readonly isEmpty: boolean }) {
  if (name !== '') {
    return <p class="empty">{`The template ${name} does not exist, or the role ${role.value} may not run it.`}</p>
  }
  if (!isEmpty) return <p class="empty">Choose a template.</p>
  return (
    <div class="empty">
      <p>
        A query template is a stored query with a name and parameters. Programs run it by its name, with the permissions
        of the caller.
      </p>
      {isAdmin.value ? (
        <p>
          <a href="/console/templates?new">Make the first template</a>
        </p>
      ) : (
        <p>The role {role.value} may run no template.</p>
      )}
    </div>
  )
}

function NewTemplate({ changed }: { readonly changed: (name: string) => void }) {
  return (
    <>
      <div class="bar">
        <h2>New template</h2>
      </div>
      <Definition template={undefined} changed={changed} />
    </>
  )
}
