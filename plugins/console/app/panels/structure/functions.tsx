import { useState } from 'preact/hooks'
import { type Func, isSameTable, labelOf } from '../../catalog.js'
import { textOf } from '../../json.js'
import { fieldsOf } from '../../ui/form.js'
import { Problem } from '../../ui/problem.js'
import { ConfirmDrop } from './confirm.js'
import {
  asAdmin,
  type FunctionEntry,
  nameFrom,
  type Preview,
  refOf,
  typed,
  useAnswer,
  useChange,
  useStructure,
} from './structure.js'

/** Tracked functions, who may call them, and those that can be tracked. */
export function Functions() {
  const { catalog, metadata } = useStructure()
  const { answer: preview, failure } = useAnswer(
    (signal) => asAdmin<Preview>('track_all', { dry_run: true }, { signal }),
    metadata,
  )
  const all = metadata.functions ?? []
  return (
    <div class="page scroll">
      <div class="body sections">
        <section>
          <h3>Tracked functions</h3>
          {all.length === 0 && (
            <p class="soft">None yet. Roles with permission can call a tracked function by its name.</p>
          )}
          <ul class="cards">
            {all.map((entry) => (
              <FunctionCard
                key={labelOf(refOf(entry.function))}
                entry={entry}
                found={catalog.functions.find((each) => isSameTable(each.function, refOf(entry.function)))}
                roles={catalog.roles ?? []}
              />
            ))}
          </ul>
        </section>
        <section>
          <h3>Track a function</h3>
          <Track preview={preview} />
          {failure !== undefined && <Problem of={failure} />}
        </section>
      </div>
    </div>
  )
}

function FunctionCard({
  entry,
  found,
  roles,
}: {
  readonly entry: FunctionEntry
  readonly found: Func | undefined
  readonly roles: readonly string[]
}) {
  const { run, isBusy, failure } = useChange()
  const [isAsking, setAsking] = useState(false)
  const label = labelOf(refOf(entry.function))
  const list = `roles for ${label}`
  const grant = (event: SubmitEvent) => {
    const { role } = fieldsOf(event)
    const form = event.currentTarget as HTMLFormElement
    void run(() => asAdmin('create_function_permission', { function: entry.function, role })).then((isDone) =>
      isDone ? form.reset() : undefined,
    )
  }
  const settings = Object.entries(entry.configuration ?? {}).map(([key, value]) => `${key}: ${textOf(value)}`)
  return (
    <li class="function">
      <div class="row">
        <b>
          <bdi>{label}</bdi>
        </b>
        <code class="soft">{found ? signatureOf(found) : 'the database does not have it'}</code>
        <button type="button" class="quiet push" onClick={() => setAsking(true)}>
          Untrack
        </button>
      </div>
      {entry.comment !== null && <p class="soft comment">{entry.comment}</p>}
      {settings.length > 0 && <p class="soft">{settings.join(', ')}</p>}
      <form class="row" onSubmit={grant}>
        <span class="soft">
          {entry.permissions.length === 0 ? 'Only admin may call it.' : 'Roles that may call it:'}
        </span>
        {entry.permissions.map(({ role }) => (
          <span class="chip" key={role}>
            {role}{' '}
            <button
              type="button"
              class="quiet"
              disabled={isBusy}
              aria-label={`Forbid ${role} to call ${label}`}
              onClick={() => void run(() => asAdmin('drop_function_permission', { function: entry.function, role }))}
            >
              ×
            </button>
          </span>
        ))}
        <input
          name="role"
          list={list}
          required
          size={12}
          placeholder="role"
          aria-label={`Role to allow to call ${label}`}
          autocomplete="off"
        />
        <datalist id={list}>
          {roles.map((role) => (
            <option key={role} value={role} />
          ))}
        </datalist>
        <button disabled={isBusy}>Allow</button>
      </form>
      {failure !== undefined && <Problem of={failure} />}
      {isAsking && (
        <ConfirmDrop
          title={`Untrack ${label}`}
          verb="Untrack"
          close={() => setAsking(false)}
          drop={() => asAdmin('untrack_function', { function: entry.function })}
        >
          <p>The function stays in the database. Requests can no longer call it.</p>
        </ConfirmDrop>
      )}
    </li>
  )
}

function signatureOf({ arguments: all, returns, volatile }: Func): string {
  const given = all.map(({ name, type, has_default: isOptional }) => `${name} ${type}${isOptional ? '?' : ''}`)
  const what = returns.table
    ? labelOf(returns.table)
    : (returns.type ?? returns.columns?.map(({ name }) => name).join(', ') ?? 'nothing')
  return `(${given.join(', ')}) → ${returns.set ? 'many ' : ''}${what === '' ? 'nothing' : what}${volatile ? ', may write' : ''}`
}

function Track({ preview }: { readonly preview: Preview | undefined }) {
  const { run, isBusy, failure } = useChange()
  const [name, setName] = useState('')
  const others = (preview?.left_out ?? []).filter((each) => each.name.startsWith('function '))
  const submit = async (event: SubmitEvent) => {
    const fields = fieldsOf(event)
    const given = Object.entries(fields).filter(([key, value]) => !['name', 'comment'].includes(key) && value !== '')
    const args = {
      function: nameFrom(fields['name'] ?? ''),
      configuration: given.length === 0 ? null : Object.fromEntries(given),
      comment: fields['comment'] === '' ? null : fields['comment'],
    }
    if (await run(() => asAdmin('track_function', args))) setName('')
  }
  return (
    <>
      <form class="fields" onSubmit={(event) => void submit(event)}>
        <label>
          Function{' '}
          <input
            name="name"
            required
            spellcheck={false}
            placeholder="find_orders or schema.find_orders"
            value={name}
            onInput={({ currentTarget }) => setName(currentTarget.value)}
          />
        </label>
        <details>
          <summary>Options</summary>
          <div class="fields">
            <label>
              In GraphQL it is a field of{' '}
              <select name="exposed_as">
                <option value="">queries, or mutations if it may write</option>
                <option value="query">queries</option>
                <option value="mutation">mutations</option>
              </select>
            </label>
            <label>
              Its name in GraphQL <input name="custom_name" spellcheck={false} />
            </label>
            <label>
              Its argument for the session variables <input name="session_argument" spellcheck={false} />
            </label>
            <label>
              Comment <input name="comment" />
            </label>
          </div>
        </details>
        {failure !== undefined && <Problem of={failure} />}
        <p class="row">
          <button class="primary" disabled={isBusy}>
            Track
          </button>
        </p>
      </form>
      {preview && preview.functions.length + others.length > 0 && (
        <>
          <h3>Not tracked</h3>
          <dl class="reasons">
            {preview.functions.map((each) => (
              <Candidate key={labelOf(refOf(each))} label={labelOf(refOf(each))} reason="" choose={setName} />
            ))}
            {others.map((each) => (
              <Candidate
                key={each.name}
                label={each.name.slice('function '.length)}
                reason={each.reason}
                choose={setName}
              />
            ))}
          </dl>
        </>
      )}
    </>
  )
}

const Candidate = ({
  label,
  reason,
  choose,
}: {
  readonly label: string
  readonly reason: string
  readonly choose: (label: string) => void
}) => (
  <div>
    <dt>
      <button type="button" class="quiet" onClick={() => choose(typed(label))}>
        <code>{label}</code>
      </button>
    </dt>
    <dd class="soft">{reason}</dd>
  </div>
)
