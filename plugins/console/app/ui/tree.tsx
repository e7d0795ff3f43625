import { useState } from 'preact/hooks'
import { BigNumber, type Json, type JsonObject } from '../json.js'

/** Members that are shown at first, and then with each click. */
const PAGE = 100

/** A JSON value as a tree whose parts open and close. */
export function Tree({ value, label }: { readonly value: Json; readonly label: string }) {
  return (
    <div class="tree mono" role="group" aria-label={label}>
      <Branch name="" value={value} depth={0} />
    </div>
  )
}

function Branch({ name, value, depth }: { readonly name: string; readonly value: Json; readonly depth: number }) {
  const [isOpen, setOpen] = useState(depth < 2)
  const [shown, setShown] = useState(PAGE)
  if (!hasParts(value)) {
    return (
      <p>
        <Name text={name} />
        <span class={classOf(value)}>{typeof value === 'string' ? JSON.stringify(value) : String(value)}</span>
      </p>
    )
  }
  const isList = Array.isArray(value)
  const keys = isList ? undefined : Object.keys(value)
  const count = keys?.length ?? (value as readonly Json[]).length
  const members = Array.from({ length: isOpen ? Math.min(shown, count) : 0 }, (_, i) => keys?.[i] ?? String(i))
  return (
    <details open={isOpen} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        <Name text={name} />
        <span class="soft">
          {isList ? `[${count}]` : `{${count}}`} {isOpen ? '' : briefly(value)}
        </span>
      </summary>
      {isOpen && (
        <div class="branch">
          {members.map((key) => (
            <Branch key={key} name={key} value={(value as JsonObject)[key] ?? null} depth={depth + 1} />
          ))}
          {count > shown && (
            <button type="button" class="quiet" onClick={() => setShown(shown + PAGE * 5)}>
              {(count - shown).toLocaleString('en')} more
            </button>
          )}
        </div>
      )}
    </details>
  )
}

const Name = ({ text }: { readonly text: string }) => (text === '' ? null : <span class="name">{text}: </span>)

const hasParts = (value: Json): value is JsonObject | readonly Json[] =>
  typeof value === 'object' && value !== null && !(value instanceof BigNumber)

const classOf = (value: Json) => (value === null ? 'soft' : typeof value === 'string' ? 'good' : 'odd')

/** Returns the first values of a part, in one line. */
function briefly(value: JsonObject | readonly Json[]): string {
  const first = Object.values(value as JsonObject).slice(0, 4)
  return first
    .map((each) => (each === undefined || (each !== null && hasParts(each)) ? '…' : String(each).slice(0, 24)))
    .join(', ')
}
