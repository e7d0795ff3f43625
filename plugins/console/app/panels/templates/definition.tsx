import { useCallback, useMemo, useState } from 'preact/hooks'
import { Failure } from '../../api.js'
import { type Json, parse } from '../../json.js'
import { partsOf, type Path, pathOf, placeOf } from '../../json-places.js'
import { isAdmin } from '../../session.js'
import { Confirm } from '../../ui/confirm.js'
import { Editor } from '../../ui/editor.js'
import { fieldsOf } from '../../ui/form.js'
import { Problem } from '../../ui/problem.js'
import { complete } from '../ask/complete.js'
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
  const [failure, setFailure] = useState<{ readonly of: unknown; readonly text: string }>()
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
      const of = error instanceof SyntaxError ? new Error(`The query is not JSON: ${error.message}`) : error
      setFailure({ of, text })
    }
    setSaving(false)
  }
  const check = useCallback(
    (shown: string) => {
      const { root, mistake } = partsOf(shown)
      if (mistake) return [mistake]
      if (!(failure?.of instanceof Failure) || failure.text !== shown || !failure.of.path.includes('template'))
        return []
      return [{ ...placeOf(root, placeIn(failure.of.path)), message: failure.of.message }]
    },
    [failure],
  )
  const format = () => {
    try {
      setText(JSON.stringify(parse(text), null, 2))
    } catch (error) {
      setFailure({ of: error, text })
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
        <Editor
          label="Query of the template"
          language="json"
          value={text}
          onChange={setText}
          complete={(at) => complete(at, isAdmin.value)}
          check={check}
        />
      </div>
      {failure !== undefined && <Problem of={failure.of} />}
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

/** Returns the place in the query that a path in the request to save it names. */
function placeIn(path: string): Path {
  const steps = pathOf(path)
  return steps.slice(steps.indexOf('template') + 1)
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
