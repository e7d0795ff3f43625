import { type Column, isNumeric, type Table } from '../../catalog.js'
import { textOf } from '../../json.js'
import type { GridColumn, GridRow } from '../../ui/grid.js'
import { relatedAddress } from './row-sheet.js'
import { type Choice, choicesOf, columnAt, keyOf, titleOf, type View } from './view.js'

/** Returns the columns of a view for the grid. A column that refers to a row of another table has a link to it. */
export function gridColumnsOf(table: Table, view: View): readonly GridColumn[] {
  return choicesOf(table, view).map((choice): GridColumn => {
    const column =
      typeof choice === 'string' || Array.isArray(choice) ? columnAt(table, [choice].flat() as string[]) : undefined
    const reference = typeof choice === 'string' ? referenceAt(table, choice) : undefined
    return {
      key: keyOf(choice),
      title: titleOf(choice),
      hint: column?.type,
      numeric: column ? isNumeric(column) : isCount(choice),
      sortable:
        column !== undefined && isSortable(column) && (typeof choice === 'string' || isPlainPath(table, choice)),
      render:
        reference === undefined
          ? undefined
          : (value, row) => <Reference table={table} name={reference} row={row} text={textOf(value)} />,
    }
  })
}

const isCount = (choice: Choice): boolean => typeof choice === 'object' && 'count' in choice
/** Only rows to one row sort others. */
const isPlainPath = (table: Table, choice: Choice): boolean =>
  Array.isArray(choice) &&
  choice.every((name) => /^\w+$/.test(name)) &&
  table.relationships.some(({ name, type }) => name === choice[0] && type === 'object')
const isSortable = ({ type }: Column): boolean => !/^(json|xml|point|line|lseg|box|path|polygon|circle)$/.test(type)

/** Returns the relationship to one row that a column alone makes. */
const referenceAt = (table: Table, column: string): string | undefined =>
  table.relationships.find(({ type, columns = {} }) => type === 'object' && Object.keys(columns).join() === column)
    ?.name

function Reference({
  table,
  name,
  row,
  text,
}: {
  readonly table: Table
  readonly name: string
  readonly row: GridRow
  readonly text: string
}) {
  const href = relatedAddress(table, name, row)
  if (href === undefined) return <>{text === '' ? 'null' : text}</>
  return (
    <>
      {text}{' '}
      <a class="reference" href={href} tabIndex={-1} title={`Open ${name}`} aria-label={`Open ${name} ${text}`}>
        ↗
      </a>
    </>
  )
}
