import { isAdmin, role } from '../../session.js'
import { findingsAbout } from '../../lint.js'
import { Findings } from '../../ui/findings.js'
import { Tabs } from '../../ui/tabs.js'
import { Calls } from './calls.js'
import { Definition } from './definition.js'
import { OpenApi } from './openapi.js'
import { Roles } from './roles.js'
import { Run } from './run.js'
import type { Template } from './templates.js'

const VIEWS = {
  run: 'Run',
  definition: 'Definition',
  calls: 'Calls',
  roles: 'Roles',
  openapi: 'OpenAPI',
} as const
type View = keyof typeof VIEWS
const OF_ADMINS: readonly View[] = ['definition', 'calls', 'roles']

/** One template: run it, see its definition, who runs it and how it does. */
export function TemplateView({
  template,
  wanted,
  onView,
  changed,
}: {
  readonly template: Template
  /** Key of the view to show; another text shows the first one. */
  readonly wanted: string
  readonly onView: (view: string) => void
  /** @param name the name that the template has now; empty if it was deleted */
  readonly changed: (name: string) => void
}) {
  const { name, comment, runnable } = template
  const tabs = (Object.keys(VIEWS) as View[])
    .filter((key) => (key === 'openapi' ? runnable : isAdmin.value || !OF_ADMINS.includes(key)))
    .map((key) => ({ key, title: VIEWS[key] }))
  const view = tabs.find(({ key }) => key === wanted)?.key ?? 'run'
  return (
    <>
      <div class="bar">
        <h2>{name}</h2>
        {runnable && (
          <span class="soft">{runnable.reads ? `${runnable.type}, reads` : `${runnable.type}, writes`}</span>
        )}
        {comment !== '' && <p class="template-comment soft">{comment}</p>}
      </div>
      <Tabs label="Views of the template" tabs={tabs} chosen={view} onChoose={onView} />
      <Findings of={findingsAbout(`query-template ${name}`)} />
      {view === 'run' &&
        (runnable ? (
          // Another definition has other parameters.
          <Run key={JSON.stringify(runnable.parameters)} template={template} runnable={runnable} />
        ) : (
          <NotRunnable />
        ))}
      {view === 'definition' && <Definition key={JSON.stringify(template)} template={template} changed={changed} />}
      {view === 'calls' && <Calls name={name} />}
      {view === 'roles' && <Roles name={name} />}
      {view === 'openapi' && runnable && <OpenApi place={runnable.place} />}
    </>
  )
}

const NotRunnable = () => (
  <p class="empty">
    {role.value === 'admin'
      ? 'This template names a table or a column that does not exist any more. Change its definition, or delete it.'
      : `The role ${role.value} may not run this template: it has no permission for a table or a column that the template names.`}
  </p>
)
