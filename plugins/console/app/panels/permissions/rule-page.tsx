import { useLocation, useRoute } from 'preact-iso'
import { colourOf, serious } from '../../lint.js'
import { Tabs } from '../../ui/tabs.js'
import { draftOf, drafts, isSame } from './draft.js'
import { InheritedPermission } from './inherited.js'
import { findingsAt } from './lint-places.js'
import { addressOf, askedIn, type Given, useGivenSession, whyAddress } from './question.js'
import { RuleForm } from './rule-form.js'
import { triedVariables } from './session-fields.js'
import { Sign } from './sign.js'
import { type Action, ACTIONS, markOf, permissionAt, placeKey, type Rules, tableNamed, titleOf } from './rules.js'
import { TryOut } from './try-out.js'

/**
 * One permission, and what it does: `/console/permissions/rule?table=orders&role=customer&operation=select`, with the
 * parameters of `WhyPage` to try it with one row.
 */
export function RulePage({ rules }: { readonly rules: Rules }) {
  const { route } = useLocation()
  const given = useRoute().query as Given
  const { table: name, role = '', operation } = given
  useGivenSession(given)
  const table = tableNamed(name)
  const action = ACTIONS.find((each) => each === operation) ?? 'select'
  if (!table || role === '') {
    return (
      <p class="empty">
        There is no tracked table {name}. <a href="/console/permissions">All permissions</a>
      </p>
    )
  }
  const place = { table: table.table, role, action }
  const effective = permissionAt(place)
  const { from } = effective ?? {}
  const saved = from ? undefined : effective
  const original = draftOf(saved, action)
  const kept = drafts.value.get(placeKey(place))
  const draft = kept ?? original
  const isChanged = !isSame(draft, original)
  const asked = askedIn(given, table)
  const isAsked = asked.key !== undefined || asked.object !== undefined
  const variables = isAsked ? triedVariables() : {}
  const titled = (each: Action) => {
    const there = { ...place, action: each }
    const found = serious(findingsAt(there))
    return (
      <>
        <Sign rows={markOf(permissionAt(there), each, table).rows} /> {each}
        {found.length > 0 && (
          <small class={colourOf(found)} title={`${found.length} findings`}>
            {' '}
            {found.length}
          </small>
        )}
      </>
    )
  }
  return (
    <div class="page permissions">
      <div class="bar">
        <a href="/console/permissions">Permissions</a>
        <h2>
          {role} <span class="soft">on</span> {titleOf(table.table)}
        </h2>
        <div class="push">
          <Tabs
            label="Operation"
            tabs={ACTIONS.map((key) => ({ key, title: titled(key) }))}
            chosen={action}
            onChoose={(key) => route(addressOf({ ...place, action: key }, { key: asked.key }, variables))}
          />
        </div>
      </div>
      <div class="rule-split" key={JSON.stringify([place, given['key'], given['object']])}>
        {effective && from && !kept ? (
          <InheritedPermission place={place} table={table} rules={rules} permission={effective} from={from} />
        ) : (
          <RuleForm
            place={place}
            table={table}
            rules={rules}
            draft={draft}
            isChanged={isChanged}
            saved={saved}
            from={from}
            why={isAsked ? whyAddress(place, asked, variables) : undefined}
          />
        )}
        <TryOut
          place={place}
          table={table}
          rules={rules}
          draft={isChanged ? draft : undefined}
          saved={effective}
          asked={asked}
        />
      </div>
    </div>
  )
}
