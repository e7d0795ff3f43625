import { useState } from 'preact/hooks'
import { Dialog } from '../../ui/dialog.js'
import { Problem } from '../../ui/problem.js'
import { Conflicts, wordsOf } from './inherited.js'
import { type Rules, setInheritance } from './rules.js'

/** Creates, changes and drops roles that inherit what others may do. */
export function InheritedRoles({ rules, close }: { readonly rules: Rules; readonly close: () => void }) {
  const [role, setRole] = useState('')
  const [parts, setParts] = useState<readonly string[]>([])
  const [failure, setFailure] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const choose = (name: string) => {
    setRole(name)
    setParts(rules.inherited.get(name) ?? [])
    setFailure(undefined)
  }
  const put = async (name: string, next: readonly string[]) => {
    setBusy(true)
    setFailure(undefined)
    try {
      await setInheritance(name, next)
      choose('')
    } catch (error) {
      setFailure(error)
    }
    setBusy(false)
  }
  const others = rules.roles.filter((each) => each !== role)
  const isKnown = rules.inherited.has(role)
  return (
    <Dialog title="Inherited roles" close={close}>
      <p class="soft">
        An inherited role sees the rows that any of its parts sees, and in each row the columns of the parts that see
        it.
      </p>
      {rules.inherited.size > 0 && (
        <ul class="inherited-roles" aria-label="Inherited roles">
          {[...rules.inherited].map(([name, from]) => (
            <li key={name} class="row">
              <span>
                <b>{name}</b> from {wordsOf(from)}
              </span>
              <button type="button" class="quiet push" aria-label={`Change ${name}`} onClick={() => choose(name)}>
                Change
              </button>
              <button
                type="button"
                class="quiet danger"
                aria-label={`End the inheritance of ${name}`}
                disabled={isBusy}
                onClick={() => void put(name, [])}
              >
                End
              </button>
            </li>
          ))}
        </ul>
      )}
      <form
        class="inherited-form"
        onSubmit={(event) => {
          event.preventDefault()
          void put(role, parts)
        }}
      >
        <label>
          Role{' '}
          <input
            value={role}
            pattern="[A-Za-z0-9_.\-]{1,64}"
            required
            autocomplete="off"
            spellcheck={false}
            onInput={({ currentTarget }) => setRole(currentTarget.value)}
          />
        </label>
        <fieldset>
          <legend>Inherits from</legend>
          <div class="ticks">
            {others.map((each) => (
              <label key={each}>
                <input
                  type="checkbox"
                  checked={parts.includes(each)}
                  onChange={({ currentTarget }) =>
                    setParts(currentTarget.checked ? [...parts, each] : parts.filter((part) => part !== each))
                  }
                />{' '}
                {each}
              </label>
            ))}
          </div>
          {others.length === 0 && <p class="soft">No other role has a permission yet.</p>}
        </fieldset>
        {failure !== undefined && (
          <Problem of={failure}>
            <Conflicts of={failure} rules={rules} />
          </Problem>
        )}
        <p class="row">
          <button class="primary" disabled={isBusy || parts.length === 0}>
            {isKnown ? 'Save' : 'Create'}
          </button>
          {isKnown && (
            <button type="button" onClick={() => choose('')}>
              Cancel
            </button>
          )}
        </p>
      </form>
    </Dialog>
  )
}
