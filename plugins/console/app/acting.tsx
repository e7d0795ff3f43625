import { useEffect, useRef, useState } from 'preact/hooks'
import { query } from './api.js'
import { acting, chooseRole, isAdmin, session } from './session.js'
import { fieldsOf } from './ui/form.js'

const USER_ID = 'x-service-user-id'

/** Shows as whom the panels ask. An admin can choose another role and user, and a user with several roles one of them. */
export function ActingControl() {
  const [isOpen, setOpen] = useState(false)
  const current = acting.value
  const { role = '', roles = [] } = session.value ?? {}
  if (roles.length > 1) return <OwnRole role={role} roles={roles} />
  if (!isAdmin.value) return <span class="caller">Signed in as {role}</span>
  return (
    <div class="caller">
      <button type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {current ? (
          <>
            Acting as <b>{nameOf(current.role, current.variables)}</b>
          </>
        ) : (
          'Acting as admin'
        )}
      </button>
      {current && (
        <button type="button" class="quiet" onClick={() => (acting.value = undefined)}>
          Be admin again
        </button>
      )}
      {isOpen && <ActingForm close={() => setOpen(false)} />}
    </div>
  )
}

const OwnRole = ({ role, roles }: { readonly role: string; readonly roles: readonly string[] }) => (
  <label class="caller">
    Signed in as
    <select value={role} onChange={({ currentTarget }) => chooseRole(currentTarget.value)}>
      {roles.map((each) => (
        <option key={each}>{each}</option>
      ))}
    </select>
  </label>
)

const nameOf = (role: string, { [USER_ID]: user, ...others }: Readonly<Record<string, string>>): string =>
  [role, ...(user === undefined ? [] : [`user ${user}`]), ...Object.entries(others).map(([k, v]) => `${k} ${v}`)].join(
    ', ',
  )

interface Variable {
  readonly name: string
  readonly value: string
}

function ActingForm({ close }: { readonly close: () => void }) {
  const { role = '', variables = {} } = acting.value ?? {}
  const [roles, setRoles] = useState<readonly string[]>([])
  const [others, setOthers] = useState<readonly Variable[]>(
    Object.entries(variables).flatMap(([name, value]) => (name === USER_ID ? [] : [{ name, value }])),
  )
  const form = useRef<HTMLFormElement>(null)
  useEffect(() => {
    form.current?.querySelector('input')?.focus()
    readRoles().then(setRoles, () => {})
    const dismiss = (event: Event) => {
      if (
        event instanceof KeyboardEvent
          ? event.key === 'Escape'
          : !form.current?.parentElement?.contains(event.target as Node)
      )
        close()
    }
    addEventListener('keydown', dismiss)
    addEventListener('pointerdown', dismiss)
    return () => {
      removeEventListener('keydown', dismiss)
      removeEventListener('pointerdown', dismiss)
    }
  }, [])
  const submit = (event: SubmitEvent) => {
    const given = fieldsOf(event)
    const chosen = given['role']?.trim() ?? ''
    const user = given['user']?.trim() ?? ''
    const named = others.filter(({ name }) => name !== '').map(({ name, value }) => [name.toLowerCase(), value])
    acting.value =
      chosen === '' || chosen === 'admin'
        ? undefined
        : { role: chosen, variables: { ...(user === '' ? {} : { [USER_ID]: user }), ...Object.fromEntries(named) } }
    close()
  }
  const change = (index: number, by: Partial<Variable>) =>
    setOthers(others.map((each, i) => (i === index ? { ...each, ...by } : each)))
  return (
    <form class="popover" ref={form} onSubmit={submit} aria-label="Act as">
      <label>
        Role
        <input
          name="role"
          list="roles"
          defaultValue={role}
          placeholder="admin"
          autocomplete="off"
          spellcheck={false}
          pattern="[A-Za-z0-9_.\-]{1,64}"
        />
        <datalist id="roles">
          {roles.map((each) => (
            <option key={each} value={each} />
          ))}
        </datalist>
      </label>
      <label>
        User id
        <input name="user" defaultValue={variables[USER_ID] ?? ''} autocomplete="off" spellcheck={false} />
      </label>
      {others.map(({ name, value }, i) => (
        <div class="pair" key={i}>
          <input
            aria-label="Name of the session variable"
            placeholder="X-Service-..."
            value={name}
            pattern="[Xx]-[Ss]ervice-[A-Za-z0-9\-]+"
            onInput={({ currentTarget }) => change(i, { name: currentTarget.value })}
          />
          <input
            aria-label="Value of the session variable"
            value={value}
            onInput={({ currentTarget }) => change(i, { value: currentTarget.value })}
          />
        </div>
      ))}
      <button type="button" class="quiet" onClick={() => setOthers([...others, { name: '', value: '' }])}>
        Add a session variable
      </button>
      <p class="row">
        <button class="primary">Act as this role</button>
        <button type="button" onClick={close}>
          Cancel
        </button>
      </p>
    </form>
  )
}

/** Returns the roles that have permissions. */
async function readRoles(): Promise<readonly string[]> {
  const { roles } = await query<{ readonly roles: readonly string[] }>('describe', {}, { as: null })
  return roles
}
