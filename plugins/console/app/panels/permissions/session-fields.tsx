import { signal } from '@preact/signals'
import { acting } from '../../session.js'
import { variableWords } from 'rowhouse/sentence'

/** Session variables of the caller to try a permission as. They stay while the console is open. */
export const tried = signal<Readonly<Record<string, string>>>({ ...acting.value?.variables })

/** Returns the session variables that have a value. */
export const triedVariables = (): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(tried.value).filter(([, value]) => value.trim() !== ''))

/** Fields for session variables. */
export const Session = ({ names }: { readonly names: readonly string[] }) => (
  <>
    {names.map((name) => (
      <label key={name} class="row session">
        {name === 'x-service-user-id' ? 'User id' : variableWords(name)}
        <input
          size={8}
          value={tried.value[name] ?? ''}
          autocomplete="off"
          spellcheck={false}
          onInput={({ currentTarget }) => (tried.value = { ...tried.value, [name]: currentTarget.value })}
        />
      </label>
    ))}
  </>
)
