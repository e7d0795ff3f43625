import { useLocation } from 'preact-iso'
import { labelOf } from '../../../catalog.js'
import { fieldsOf } from '../../../ui/form.js'
import { Problem } from '../../../ui/problem.js'
import { addressOf, asAdmin, nameFrom, refOf, useChange } from '../structure.js'

/** Tracks one table by its name, such as a partition, which `track_all` leaves out. */
export function TrackOne() {
  const { route } = useLocation()
  const { run, isBusy, failure } = useChange()
  const submit = async (event: SubmitEvent) => {
    const { name = '', is_enum: isEnum } = fieldsOf(event)
    const table = nameFrom(name)
    if (await run(() => asAdmin('track_table', { table, is_enum: isEnum === 'on' })))
      route(addressOf(labelOf(refOf(table))))
  }
  return (
    <details>
      <summary>Track one by its name</summary>
      <form class="row" onSubmit={(event) => void submit(event)}>
        <label class="row">
          Table or view <input name="name" placeholder="orders or schema.orders" required spellcheck={false} />
        </label>
        <label>
          <input type="checkbox" name="is_enum" /> Its rows are the values of an enum
        </label>
        <button disabled={isBusy}>Track</button>
      </form>
      {failure !== undefined && <Problem of={failure} />}
    </details>
  )
}
