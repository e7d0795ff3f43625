import { useEffect, useState } from 'preact/hooks'
import { ask, query } from '../../api.js'
import { catalog } from '../../catalog.js'
import { acting } from '../../session.js'
import { Problem } from '../../ui/problem.js'

/** The roles that may run a template, with any arguments. */
export function Roles({ name }: { readonly name: string }) {
  const [may, setMay] = useState<ReadonlyMap<string, boolean>>()
  const [failure, setFailure] = useState<unknown>()
  useEffect(() => {
    const reading = new AbortController()
    readRoles(name, reading.signal)
      .then(setMay)
      .catch((error: unknown) => {
        if (!reading.signal.aborted) setFailure(error)
      })
    return () => reading.abort()
  }, [name])
  if (failure !== undefined) return <Problem of={failure} />
  if (!may) return <p class="wait">Loading …</p>
  return (
    <div class="scroll body">
      <table class="template-table">
        <caption class="soft">
          A role may run a template if it may run each query in it. Rules of rows still apply.
        </caption>
        <thead>
          <tr>
            <th scope="col">Role</th>
            <th scope="col">May run it</th>
            <th scope="col">Try</th>
          </tr>
        </thead>
        <tbody>
          {[...may].map(([role, isAllowed]) => (
            <tr key={role}>
              <th scope="row">{role}</th>
              <td class={isAllowed ? 'good' : 'soft'}>{isAllowed ? 'yes' : 'no'}</td>
              <td>
                {role !== 'admin' && (
                  <button type="button" class="quiet" onClick={() => (acting.value = { role, variables: {} })}>
                    Act as {role}
                  </button>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** Asks the list of templates as each role. */
async function readRoles(name: string, signal: AbortSignal): Promise<ReadonlyMap<string, boolean>> {
  const { roles = [] } = catalog.value?.roles
    ? catalog.value
    : await query<{ readonly roles: readonly string[] }>('describe', {}, { as: null, signal })
  const may = new Map([['admin', true]])
  for (const role of roles) {
    if (role === 'admin') continue
    const list = await ask<readonly { readonly name: string }[]>('/v1/template', {
      as: { role, variables: {} },
      signal,
    })
    may.set(
      role,
      list.some((each) => each.name === name),
    )
  }
  return may
}
