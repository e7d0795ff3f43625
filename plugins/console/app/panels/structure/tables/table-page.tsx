import { useState } from 'preact/hooks'
import { useLocation } from 'preact-iso'
import { labelOf, type Table, wireName } from '../../../catalog.js'
import { ConfirmDrop, Names } from '../confirm.js'
import { asAdmin, refOf, rowsAddressOf, type Suggestion, type TableEntry, useStructure } from '../structure.js'
import { Columns } from './columns.js'
import { ComputedFields } from './computed-fields.js'
import { GraphqlNames } from './graphql-names.js'
import { Relationships } from './relationships.js'

/** All of one tracked table. */
export function TablePage({
  label,
  suggestions,
}: {
  readonly label: string
  readonly suggestions: readonly Suggestion[]
}) {
  const { catalog, metadata } = useStructure()
  const table = catalog.tables.find((each) => labelOf(each.table) === label)
  const entry = metadata.tables.find((each) => labelOf(refOf(each.table)) === label)
  if (!table || !entry)
    return (
      <p class="empty">
        {entry ? (
          <>
            The table {label} is tracked, but the database does not have it.{' '}
            <a href="/console/structure/metadata">See inconsistent metadata</a>
          </>
        ) : (
          <>
            The table {label} is not tracked. <a href="/console/structure">See what can be tracked</a>
          </>
        )}
      </p>
    )
  const own = suggestions.filter((each) => labelOf(refOf(each.table)) === label)
  return (
    <>
      <Head label={label} table={table} entry={entry} />
      <div class="body sections">
        <Columns table={table} />
        <Relationships table={table} entry={entry} suggestions={own} />
        <ComputedFields table={table} entry={entry} />
        <GraphqlNames table={table} entry={entry} />
      </div>
    </>
  )
}

function Head({ label, table, entry }: { readonly label: string; readonly table: Table; readonly entry: TableEntry }) {
  const { route } = useLocation()
  const [isAsking, setAsking] = useState(false)
  const lost = ownedBy(entry)
  return (
    <div class="bar">
      <h2>
        <bdi>{label}</bdi>
      </h2>
      <span class="soft">
        {table.kind}
        {entry.is_enum && ', enum'}
      </span>
      <a href={rowsAddressOf(label)}>Rows</a>
      <a href={`/console/structure/diagram?table=${encodeURIComponent(label)}`}>Diagram</a>
      <button type="button" class="danger push" onClick={() => setAsking(true)}>
        Untrack
      </button>
      {table.comment !== undefined && <p class="comment">{table.comment}</p>}
      {isAsking && (
        <ConfirmDrop
          title={`Untrack ${label}`}
          verb="Untrack"
          close={() => setAsking(false)}
          done={() => route('/console/structure')}
          drop={(cascade) => asAdmin('untrack_table', { table: wireName(table.table), cascade })}
        >
          <p>The table and its rows stay in the database. Requests no longer see them.</p>
          {lost.length > 0 && (
            <>
              <p>What belongs to it is dropped:</p>
              <Names names={lost} />
            </>
          )}
        </ConfirmDrop>
      )}
    </div>
  )
}

/** Names what untracking a table drops without a further question. */
function ownedBy(entry: TableEntry): readonly string[] {
  const permissions = (['select', 'insert', 'update', 'delete'] as const).flatMap((type) =>
    entry[`${type}_permissions`].map(({ role }) => `${type} permission of ${role}`),
  )
  const relationships = [...entry.object_relationships, ...entry.array_relationships].map(
    ({ name }) => `relationship ${name}`,
  )
  return [
    ...permissions,
    ...relationships,
    ...(entry.computed_fields ?? []).map(({ name }) => `computed field ${name}`),
  ]
}
