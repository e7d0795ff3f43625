import { useState } from 'preact/hooks'
import { fieldsOf } from '../../ui/form.js'

/** Names a role that has no permission yet. */
export function NewRole({ taken, add }: { readonly taken: readonly string[]; readonly add: (name: string) => void }) {
  const [isOpen, setOpen] = useState(false)
  const [refusal, setRefusal] = useState('')
  if (!isOpen) {
    return (
      <button type="button" onClick={() => setOpen(true)}>
        New role
      </button>
    )
  }
  const submit = (event: SubmitEvent) => {
    const name = fieldsOf(event)['role']?.trim() ?? ''
    if (name === 'admin') return setRefusal('The role admin may do everything.')
    if (taken.includes(name)) return setRefusal(`There is a role ${name} already.`)
    setOpen(false)
    setRefusal('')
    add(name)
  }
  return (
    <form class="row" onSubmit={submit}>
      <input
        name="role"
        aria-label="Name of the new role"
        placeholder="Name of the role"
        pattern="[A-Za-z0-9_.\-]{1,64}"
        required
        autofocus
        autocomplete="off"
        spellcheck={false}
      />
      <button class="primary">Add</button>
      <button type="button" onClick={() => setOpen(false)}>
        Cancel
      </button>
      <span class="bad" role="alert">
        {refusal}
      </span>
    </form>
  )
}
