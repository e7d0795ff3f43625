import { useState } from 'preact/hooks'
import { labelOf, type Relationship, type Table, wireName } from '../../../catalog.js'
import { Problem } from '../../../ui/problem.js'
import { ConfirmDrop } from '../confirm.js'
import { FormDialog } from '../form-dialog.js'
import { addressOf, asAdmin, joinOf, refOf, type Suggestion, type TableEntry, useChange } from '../structure.js'
import { AddRelationship } from './add-relationship.js'

type Asking = { readonly what: 'edit' | 'drop'; readonly name: string } | { readonly what: 'add' } | undefined

/** The relationships of a table, and those that its foreign keys suggest. */
export function Relationships({
  table,
  entry,
  suggestions,
}: {
  readonly table: Table
  readonly entry: TableEntry
  readonly suggestions: readonly Suggestion[]
}) {
  const [asking, setAsking] = useState<Asking>()
  const { run, isBusy, failure } = useChange()
  const close = () => setAsking(undefined)
  const named = wireName(table.table)
  const comments = new Map(
    [...entry.object_relationships, ...entry.array_relationships].map(({ name, comment }) => [name, comment ?? '']),
  )
  return (
    <section>
      <h3>Relationships</h3>
      {table.relationships.length === 0 && suggestions.length === 0 && <p class="soft">There are none.</p>}
      <ul class="cards">
        {table.relationships.map((each) => (
          <li key={each.name}>
            <Shown relationship={each} comment={comments.get(each.name) ?? ''} />
            <span class="row">
              <button type="button" class="quiet" onClick={() => setAsking({ what: 'edit', name: each.name })}>
                Edit
              </button>
              <button type="button" class="quiet" onClick={() => setAsking({ what: 'drop', name: each.name })}>
                Drop
              </button>
            </span>
          </li>
        ))}
        {suggestions.map((each) => (
          <li key={`suggested ${each.name}`} class="suggested">
            <span>
              <b>
                <bdi>{each.name}</bdi>
              </b>{' '}
              <span class="soft">{each.type === 'object' ? 'one row of' : 'rows of'}</span>{' '}
              <bdi>{labelOf(refOf(each.to))}</bdi> <span class="soft">suggested by a foreign key</span>
            </span>
            <button
              type="button"
              disabled={isBusy}
              onClick={() =>
                void run(() =>
                  asAdmin(`create_${each.type}_relationship`, { table: named, name: each.name, using: each.using }),
                )
              }
            >
              Add
            </button>
          </li>
        ))}
      </ul>
      {failure !== undefined && <Problem of={failure} />}
      <button type="button" onClick={() => setAsking({ what: 'add' })}>
        Add by columns
      </button>
      {asking?.what === 'add' && <AddRelationship table={table} close={close} />}
      {asking?.what === 'edit' && (
        <Edit table={table} name={asking.name} comment={comments.get(asking.name) ?? ''} close={close} />
      )}
      {asking?.what === 'drop' && (
        <ConfirmDrop
          title={`Drop the relationship ${asking.name}`}
          verb="Drop"
          close={close}
          drop={(cascade) => asAdmin('drop_relationship', { table: named, relationship: asking.name, cascade })}
        >
          <p>The foreign key and the rows stay in the database.</p>
        </ConfirmDrop>
      )}
    </section>
  )
}

const Shown = ({ relationship, comment }: { readonly relationship: Relationship; readonly comment: string }) => (
  <span>
    <b>
      <bdi>{relationship.name}</bdi>
    </b>{' '}
    <span class="soft">{relationship.type === 'object' ? 'one row of' : 'rows of'}</span>{' '}
    <a href={addressOf(labelOf(relationship.table))}>
      <bdi>{labelOf(relationship.table)}</bdi>
    </a>{' '}
    <code class="soft">{joinOf(relationship.columns)}</code>
    {comment !== '' && <span class="comment soft">{comment}</span>}
  </span>
)

/** Renames a relationship, and sets its comment. */
function Edit({
  table,
  name,
  comment,
  close,
}: {
  readonly table: Table
  readonly name: string
  readonly comment: string
  readonly close: () => void
}) {
  const save = async (fields: Readonly<Record<string, string>>) => {
    const named = wireName(table.table)
    const renamed = fields['name'] ?? name
    const said = fields['comment'] ?? ''
    const steps = [
      ...(renamed === name ? [] : [{ type: 'rename_relationship', args: { table: named, name, new_name: renamed } }]),
      ...(said === comment
        ? []
        : [
            {
              type: 'set_relationship_comment',
              args: { table: named, relationship: renamed, comment: said === '' ? null : said },
            },
          ]),
    ]
    if (steps.length > 0) await asAdmin('bulk', steps)
  }
  return (
    <FormDialog title={`The relationship ${name}`} verb="Save" change={save} close={close}>
      <label>
        Name <input name="name" defaultValue={name} required spellcheck={false} />
      </label>
      <label>
        Comment <input name="comment" defaultValue={comment} />
      </label>
    </FormDialog>
  )
}
