import { useRoute } from 'preact-iso'
import { colourOf, type Finding, checkAll, LEVELS, lint, stopChecking } from '../../lint.js'
import { Findings } from '../../ui/findings.js'
import { Problem } from '../../ui/problem.js'
import { Waiting } from '../../ui/waiting.js'
import { findingsOn, placesOf } from './lint-places.js'
import { addressOf } from './question.js'
import { type Rules, tableNamed, titleOf } from './rules.js'

/** All findings of the lint, or those about a table: `/console/permissions/findings?table=orders`. */
export function FindingsPage({ rules }: { readonly rules: Rules }) {
  const table = tableNamed((useRoute().query as { readonly table?: string }).table)
  const { findings, failure, since } = lint.value
  const shown = table ? findingsOn(table.table, rules.roles) : (findings ?? [])
  const places = placesOf(rules)
  const title = ({ object }: Finding) => {
    const place = places.get(object)
    const template = object.startsWith(TEMPLATE) ? object.slice(TEMPLATE.length) : undefined
    if (template !== undefined)
      return <a href={`/console/templates/${encodeURIComponent(template)}?view=roles`}>template {template}</a>
    if (!place) return <span>{object}</span>
    return (
      <a href={addressOf(place)}>
        {place.role} on {titleOf(place.table)}: {place.action}
      </a>
    )
  }
  return (
    <div class="page permissions">
      <div class="bar">
        <a href="/console/permissions">Permissions</a>
        <h2>
          Findings{table && <span class="soft"> on </span>}
          {table && titleOf(table.table)}
        </h2>
        {findings && <span class={colourOf(shown)}>{summary(shown)}</span>}
        {table && <a href="/console/permissions/findings">All findings</a>}
        {since === undefined ? (
          <button type="button" class="push" onClick={() => void checkAll()}>
            Check all
          </button>
        ) : (
          <span class="row push">
            <Waiting since={since} stop={stopChecking} />
            <button type="button" disabled>
              Checking …
            </button>
          </span>
        )}
      </div>
      <div class="scroll body" tabIndex={0} role="region" aria-label="Findings">
        <p class="soft">
          Likely mistakes in permissions and templates, as <code>rowhouse lint</code> finds them. What is deliberate
          needs no change.
        </p>
        {failure !== undefined && <Problem of={failure} />}
        {findings && shown.length === 0 && <p class="good">Nothing was found.</p>}
        {!findings && failure === undefined && since === undefined && <p class="soft">Nothing was checked yet.</p>}
        <Findings of={shown} title={title} label="All findings" />
      </div>
    </div>
  )
}

const TEMPLATE = 'query-template '

/** `1 error, 2 warnings, 3 info` */
function summary(findings: readonly Finding[]): string {
  const counted = LEVELS.flatMap((level) => {
    const count = findings.filter((each) => each.level === level).length
    return count === 0 ? [] : [`${count} ${level}${level === 'info' || count === 1 ? '' : 's'}`]
  })
  return counted.join(', ')
}
