import { useEffect, useMemo, useState } from 'preact/hooks'
import { catalog, type Column, isSameTable, type Table } from '../../catalog.js'
import type { JsonObject } from '../../json.js'
import { Dialog } from '../../ui/dialog.js'
import { Editor } from '../../ui/editor.js'
import {
  type Condition,
  type Filter,
  filterOfWhere,
  operandOf,
  operatorsOf,
  readWhere,
  whereOfFilter,
} from './conditions.js'
import { ValueInput } from './value-input.js'
import { columnAt, ownColumns, tableAt } from './view.js'

/** Conditions on the rows of a table. They apply when the form is submitted. */
export function FilterBar({
  table,
  where,
  onWhere,
}: {
  readonly table: Table
  readonly where: JsonObject
  readonly onWhere: (where: JsonObject) => void
}) {
  const applied = useMemo(() => filterOfWhere(where), [where])
  const [filter, setFilter] = useState<Filter>(applied ?? EMPTY)
  const [refusal, setRefusal] = useState('')
  const [isJson, setJson] = useState(false)
  useEffect(() => setFilter(applied ?? EMPTY), [applied])
  const { isAny, conditions } = filter
  const change = (index: number, by: Partial<Condition>) =>
    setFilter({ isAny, conditions: conditions.map((each, i) => (i === index ? { ...each, ...by } : each)) })
  const apply = (next: Filter) => {
    try {
      onWhere(whereOfFilter(next, (path) => columnAt(table, path)))
      setRefusal('')
    } catch (error) {
      setRefusal(error instanceof Error ? error.message : String(error))
    }
  }
  const remove = (index: number) => {
    const next = { isAny, conditions: conditions.filter((_, i) => i !== index) }
    setFilter(next)
    apply(next)
  }
  const add = () => {
    const [first] = ownColumns(table).filter((column) => operatorsOf(column).length > 0)
    if (first) {
      const operator = operatorsOf(first)[0]!.key
      setFilter({ isAny, conditions: [...conditions, { path: [first.name], operator, text: '' }] })
    }
  }
  return (
    <form
      class="filter"
      aria-label="Filter"
      onSubmit={(event) => {
        event.preventDefault()
        apply(filter)
      }}
    >
      {applied === undefined ? (
        <span class="row">
          <code class="filter-json">{JSON.stringify(where)}</code>
          <button type="button" class="quiet" onClick={() => onWhere({})}>
            Remove the filter
          </button>
        </span>
      ) : (
        conditions.map((condition, i) => (
          <span class="condition" key={i}>
            {i > 0 && (
              <select
                aria-label="How conditions combine"
                value={isAny ? 'or' : 'and'}
                onChange={({ currentTarget }) => setFilter({ isAny: currentTarget.value === 'or', conditions })}
              >
                <option>and</option>
                <option>or</option>
              </select>
            )}
            <ConditionFields table={table} condition={condition} onChange={(by) => change(i, by)} />
            <button type="button" class="quiet" aria-label="Remove this condition" onClick={() => remove(i)}>
              ×
            </button>
          </span>
        ))
      )}
      <span class="row">
        {applied !== undefined && (
          <button type="button" onClick={add}>
            Add a condition
          </button>
        )}
        {applied !== undefined && conditions.length > 0 && <button class="primary">Apply</button>}
        <button type="button" class="quiet" onClick={() => setJson(true)}>
          Edit as JSON
        </button>
      </span>
      {refusal !== '' && (
        <span class="bad" role="alert">
          {refusal}
        </span>
      )}
      {isJson && <WhereDialog where={where} onWhere={onWhere} close={() => setJson(false)} />}
    </form>
  )
}

const EMPTY: Filter = { isAny: false, conditions: [] }

function ConditionFields({
  table,
  condition: { path, operator, text },
  onChange,
}: {
  readonly table: Table
  readonly condition: Condition
  readonly onChange: (by: Partial<Condition>) => void
}) {
  const column = columnAt(table, path)
  const operand = column && operandOf(operator, column)
  const choose = (next: readonly string[]) => {
    const found = operatorsAt(table, next)
    const isKept = found.some(({ key }) => key === operator)
    const first = found[0]?.key
    onChange({ path: next, operator: isKept ? operator : (first ?? '$eq'), ...(operand === 'column' && { text: '' }) })
  }
  const compare = (next: string) => {
    const isOther = (column && operandOf(next, column) === 'column') !== (operand === 'column')
    onChange({ operator: next, text: isOther ? '' : text })
  }
  return (
    <>
      <select
        aria-label="Column"
        value={JSON.stringify(path)}
        onChange={({ currentTarget }) => choose(JSON.parse(currentTarget.value) as string[])}
      >
        <ColumnOptions table={table} before={[]} />
        {table.relationships.map(({ name, table: ref }) => {
          const other = catalog.value?.tables.find((each) => isSameTable(each.table, ref))
          return other ? (
            <optgroup key={name} label={name}>
              <ColumnOptions table={other} before={[name]} />
            </optgroup>
          ) : null
        })}
        {path.length > 2 && <option value={JSON.stringify(path)}>{path.join('.')}</option>}
      </select>
      <select aria-label="Operator" value={operator} onChange={({ currentTarget }) => compare(currentTarget.value)}>
        {operatorsAt(table, path).map(({ key, name }) => (
          <option key={key} value={key}>
            {name}
          </option>
        ))}
      </select>
      {operand === 'column' ? (
        <select
          aria-label="Other column"
          value={text}
          required
          onChange={({ currentTarget }) => onChange({ text: currentTarget.value })}
        >
          <option value="">column …</option>
          {comparableWith(table, path).map(({ name }) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      ) : (
        <ValueInput
          key={operand}
          column={
            operand === 'value' && column ? simple(column) : operand === 'boolean' ? { type: 'bool' } : { type: 'any' }
          }
          label="Value"
          placeholder={PLACEHOLDERS[operand ?? 'value']}
          text={operand === 'boolean' && text !== 'false' ? 'true' : text}
          onText={(next) => onChange({ text: next })}
        />
      )}
    </>
  )
}

/** Returns the columns that PostgreSQL can compare with the column of a path: others of its table and type. */
function comparableWith(table: Table, path: readonly string[]): readonly Column[] {
  const column = columnAt(table, path)
  const own = ownColumns(tableAt(table, path) ?? table)
  return own.filter(({ name, type }) => type === column?.type && name !== column.name)
}

/** Returns the operators of the column of a path. */
function operatorsAt(table: Table, path: readonly string[]) {
  const column = columnAt(table, path)
  if (!column) return []
  const hasOthers = comparableWith(table, path).length > 0
  return operatorsOf(column).filter(({ key }) => hasOthers || operandOf(key, column) !== 'column')
}

const PLACEHOLDERS: Readonly<Record<string, string>> = { list: 'a, b or ["a", "b"]', json: 'JSON' }

/** A line for what otherwise has an editor. */
const simple = <T extends { readonly type: string }>(column: T) =>
  /\[\]$|^jsonb?$|^text$/.test(column.type) ? { type: 'any' } : column

const ColumnOptions = ({ table, before }: { readonly table: Table; readonly before: readonly string[] }) => (
  <>
    {ownColumns(table)
      .filter((column) => operatorsOf(column).length > 0)
      .map(({ name }) => (
        <option key={name} value={JSON.stringify([...before, name])}>
          {[...before, name].join('.')}
        </option>
      ))}
  </>
)

function WhereDialog({
  where,
  onWhere,
  close,
}: {
  readonly where: JsonObject
  readonly onWhere: (where: JsonObject) => void
  readonly close: () => void
}) {
  const [text, setText] = useState(JSON.stringify(where, null, 2))
  const [refusal, setRefusal] = useState('')
  const apply = () => {
    try {
      onWhere(readWhere(text))
      close()
    } catch (error) {
      setRefusal(error instanceof Error ? error.message : String(error))
    }
  }
  return (
    <Dialog title="Filter as JSON" close={close}>
      <p class="soft">A condition of the JSON API, such as {'{"price": {"$gt": 10}}'}. Ctrl-Enter applies it.</p>
      <div class="value-editor tall">
        <Editor label="Condition" language="json" value={text} onChange={setText} onRun={apply} />
      </div>
      <p class="bad" role="alert">
        {refusal}
      </p>
      <p class="row">
        <button type="button" class="primary" onClick={apply}>
          Apply
        </button>
      </p>
    </Dialog>
  )
}
