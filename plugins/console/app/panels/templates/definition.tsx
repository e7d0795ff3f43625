import { useMemo, useState } from 'preact/hooks'
import { type Json, parse } from '../../json.js'
import { Confirm } from '../../ui/confirm.js'
import { Editor } from '../../ui/editor.js'
import { fieldsOf } from '../../ui/form.js'
import { Problem } from '../../ui/problem.js'
import { drop, save, type Template } from './templates.js'

/** What a new template begins with. */
const EXAMPLE = {
  type: 'select',
  args: { table: '', columns: ['*'], where: { id: { $eq: { param: 'id' } } }, limit: { param: 'limit', default: 10 } },
}

/** The name, comment and query of a template, for an admin to change. Without a template it makes one. */
export function Definition({
  template,
  changed,
}: {
  readonly template: Template | undefined
  /** @param name the name that the template has now; empty if it was deleted */
  readonly changed: (name: string) => void
}) {
  const stored = useMemo(() => textOf(template?.definition ?? EXAMPLE), [template])
  const [text, setText] = useState(stored)
  const [failure, setFailure] = useState<unknown>()
  const [isSaving, setSaving] = useState(false)
  const [isDeleting, setDeleting] = useState(false)
  const submit = async (event: SubmitEvent) => {
    const { name = '', comment = '' } = fieldsOf(event)
    setFailure(undefined)
    setSaving(true)
    try {
      await save(template, {
        name,
        comment,
        definition: template?.definition && text === stored ? template.definition : parse(text),
      })
      changed(name)
    } catch (error) {
      setFailure(error instanceof SyntaxError ? new Error(`The query is not JSON: ${error.message}`) : error)
    }
    setSaving(false)
  }
  const format = () => {
    try {
      setText(JSON.stringify(parse(text), null, 2))
    } catch (error) {
      setFailure(error)
    }
  }
  return (
    <form class="scroll body template-definition" aria-label="Definition" onSubmit={(event) => void submit(event)}>
      <div class="row">
        <label>
          Name
          <input name="name" required defaultValue={template?.name ?? ''} autocomplete="off" spellcheck={false} />
        </label>
        <label class="wide">
          Comment
          <input name="comment" defaultValue={template?.comment ?? ''} autocomplete="off" />
        </label>
      </div>
      <p class="soft">
        The query, as for <code>POST /v1/query</code>. A value may be a parameter: <code>{'{"param": "below"}'}</code>{' '}
        or <code>{'{"param": "limit", "default": 10}'}</code>.
      </p>
      <div class="template-editor">
        <Editor label="Query of the template" language="json" value={text} onChange={setText} check={check} />
      </div>
      {failure !== undefined && <Problem of={failure} />}
      <p class="row">
        <button class="primary" disabled={isSaving}>
          {template ? 'Save' : 'Create'}
        </button>
        <button type="button" onClick={format}>
          Format
        </button>
        {template && (
          <button type="button" class="danger push" onClick={() => setDeleting(true)}>
            Delete …
          </button>
        )}
      </p>
      {template && <p class="soft">If you change the name, programs need the new address.</p>}
      {template && isDeleting && (
        <Deletion name={template.name} close={() => setDeleting(false)} deleted={() => changed('')} />
      )}
    </form>
  )
}

/** Writes a query with its keys in the order in which one reads them. The database keeps them in another. */
function textOf(definition: Json): string {
  const place = (key: string) => (KEYS.includes(key) ? KEYS.indexOf(key) : KEYS.length)
  const sort = (_key: string, value: unknown): unknown =>
    typeof value === 'object' && value?.constructor === Object
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => place(a) - place(b)))
      : value
  return JSON.stringify(definition, sort, 2)
}
const KEYS = ['type', 'schema', 'name', 'args', 'table', 'function', 'columns', 'where', 'param', 'default']

/** Marks where a text stops being JSON. */
function check(text: string) {
  try {
    parse(text)
    return []
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    const from = Number(/position (\d+)/.exec(message)?.[1] ?? text.length)
    return [{ from, to: from + 1, message }]
  }
}

function Deletion({
  name,
  close,
  deleted,
}: {
  readonly name: string
  readonly close: () => void
  readonly deleted: () => void
}) {
  return (
    <Confirm title="Delete the template?" verb={`Delete ${name}`} run={() => drop(name).then(deleted)} close={close}>
      <p>
        Programs that call <b>{name}</b> will get an error. Nothing else in the database depends on it.
      </p>
    </Confirm>
  )
}
