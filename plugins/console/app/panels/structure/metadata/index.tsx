import { useState } from 'preact/hooks'
import { ask, send } from '../../../api.js'
import { isObject, type JsonObject, parse } from '../../../json.js'
import { Dialog } from '../../../ui/dialog.js'
import { Problem } from '../../../ui/problem.js'
import { Names } from '../confirm.js'
import { asAdmin, type Reason, useAnswer, useChange, useStructure } from '../structure.js'
import { type Change, detailsOf, nameOf, verbOf } from './words.js'

/** All metadata as a file, and what is wrong with it. */
export function Metadata() {
  return (
    <div class="page scroll">
      <div class="body sections">
        <Export />
        <Compare />
        <Inconsistent />
      </div>
    </div>
  )
}

function Export() {
  const { run, isBusy, failure } = useChange()
  const { metadata } = useStructure()
  const save = async () => {
    const response = await send('/v1/query', {
      method: 'POST',
      body: JSON.stringify({ type: 'export_metadata', args: {} }),
      headers: { 'Content-Type': 'application/json' },
      as: null,
    })
    download('metadata.json', `${JSON.stringify(parse(await response.text()), null, 2)}\n`)
  }
  return (
    <section>
      <h3>Export</h3>
      <p class="soft">
        {metadata.tables.length} tables, {metadata.functions?.length ?? 0} functions and{' '}
        {metadata.query_templates.length} templates, with their relationships and permissions. Keep the file with your
        code: <code>rowhouse migrate up</code> applies it.
      </p>
      <button type="button" disabled={isBusy} onClick={() => void run(save)}>
        Save metadata.json
      </button>
      {failure !== undefined && <Problem of={failure} />}
    </section>
  )
}

function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: 'application/json' }))
  Object.assign(document.createElement('a'), { href: url, download: name }).click()
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}

interface Diff {
  readonly changes: readonly Change[]
  readonly refused: { readonly path: string; readonly error: string } | null
}
/** A chosen file, and how it differs from the server. */
interface Chosen extends Diff {
  readonly name: string
  readonly text: string
}

function Compare() {
  const [chosen, setChosen] = useState<Chosen>()
  const [isAsking, setAsking] = useState(false)
  const [isDone, setDone] = useState(false)
  const reading = useChange()
  const applying = useChange()
  const choose = (file: File | undefined) => {
    setChosen(undefined)
    setDone(false)
    applying.clear()
    if (!file) return
    void reading.run(async () => {
      const text = await file.text()
      if (!isObject(JSON.parse(text))) throw new Error(`${file.name} is no export of metadata.`)
      setChosen({ name: file.name, text, ...(await withText<Diff>('diff_metadata', text)) })
    })
  }
  const apply = async () => {
    if (!chosen || !(await applying.run(() => withText('replace_metadata', chosen.text)))) return
    setAsking(false)
    setChosen(undefined)
    setDone(true)
  }
  return (
    <section>
      <h3>Compare with a file, and apply it</h3>
      <label>
        Export to compare with{' '}
        <input type="file" accept=".json" onChange={({ currentTarget }) => choose(currentTarget.files?.[0])} />
      </label>
      {reading.failure !== undefined && <Problem of={reading.failure} />}
      {isDone && (
        <p class="good" role="status">
          Applied.
        </p>
      )}
      {chosen && chosen.changes.length === 0 && <p role="status">The server has the same metadata as {chosen.name}.</p>}
      {chosen && chosen.changes.length > 0 && (
        <>
          <p role="status">
            To apply {chosen.name} makes {chosen.changes.length} {chosen.changes.length === 1 ? 'change' : 'changes'}:
          </p>
          <Changes changes={chosen.changes} />
          {chosen.refused ? (
            <div class="problem">
              <p>The server would refuse it: {chosen.refused.error}</p>
              <p class="soft">
                at <code>{chosen.refused.path}</code>
              </p>
            </div>
          ) : (
            <button type="button" class="danger" onClick={() => setAsking(true)}>
              Apply {chosen.name} …
            </button>
          )}
        </>
      )}
      {isAsking && chosen && (
        <Dialog title={`Apply ${chosen.name}`} close={() => setAsking(false)}>
          <p>This replaces all metadata of the server. It removes:</p>
          <Removed changes={chosen.changes} />
          {applying.failure !== undefined && <Problem of={applying.failure} />}
          <p class="row">
            <button type="button" class="danger" disabled={applying.isBusy} onClick={() => void apply()}>
              Make {chosen.changes.length} {chosen.changes.length === 1 ? 'change' : 'changes'}
            </button>
            <button type="button" onClick={() => setAsking(false)}>
              Cancel
            </button>
          </p>
        </Dialog>
      )}
    </section>
  )
}

/** Runs an operation with the text of a file, so that all digits of its numbers arrive. */
const withText = <T = JsonObject,>(type: string, text: string): Promise<T> =>
  ask<T>('/v1/query', {
    method: 'POST',
    body: `{"type":"${type}","args":${text}}`,
    headers: { 'Content-Type': 'application/json' },
    as: null,
  })

function Removed({ changes }: { readonly changes: readonly Change[] }) {
  const removed = changes.filter(({ change }) => change === 'removed')
  return removed.length === 0 ? <p class="soft">nothing</p> : <Names names={removed.map(({ object }) => object)} />
}

const MARKS = { added: '+', removed: '−', changed: '~' } as const

const Changes = ({ changes }: { readonly changes: readonly Change[] }) => (
  <ul class="changes">
    {changes.map((each) => (
      <li key={each.object} class={each.change}>
        <span aria-hidden="true" class="mark">
          {MARKS[each.change]}
        </span>
        <div>
          {verbOf(each)}{' '}
          <b>
            <bdi>{nameOf(each)}</bdi>
          </b>
          {each.effects.map(({ effect, text }) => (
            <div key={text}>
              <i>{effect}</i>: {text}
            </div>
          ))}
          {detailsOf(each).map((line) => (
            <div class="soft mono" key={line}>
              {line}
            </div>
          ))}
        </div>
      </li>
    ))}
  </ul>
)

interface Inconsistency {
  readonly is_consistent: boolean
  readonly inconsistent_objects: readonly Reason[]
}

function Inconsistent() {
  const { metadata } = useStructure()
  const { run, isBusy, failure } = useChange()
  const [isAsking, setAsking] = useState(false)
  const reading = useAnswer((signal) => asAdmin<Inconsistency>('get_inconsistent_metadata', {}, { signal }), metadata)
  const found = reading.answer?.inconsistent_objects ?? []
  const drop = async () => {
    if (await run(() => asAdmin('drop_inconsistent_metadata', {}))) setAsking(false)
  }
  return (
    <section>
      <h3>Inconsistent metadata</h3>
      {reading.answer?.is_consistent && <p class="soft">All metadata matches the database.</p>}
      {reading.failure !== undefined && <Problem of={reading.failure} />}
      {found.length > 0 && (
        <dl class="reasons">
          {found.map(({ name, reason }) => (
            <div key={name}>
              <dt>
                <code>{name}</code>
              </dt>
              <dd class="bad">{reason}</dd>
            </div>
          ))}
        </dl>
      )}
      {failure !== undefined && <Problem of={failure} />}
      <p class="row">
        <button type="button" disabled={isBusy} onClick={() => void run(() => asAdmin('reload_metadata', {}))}>
          Read the database again
        </button>
        {found.length > 0 && (
          <button type="button" class="danger" disabled={isBusy} onClick={() => setAsking(true)}>
            Drop {found.length} {found.length === 1 ? 'object' : 'objects'} …
          </button>
        )}
      </p>
      {isAsking && (
        <Dialog title="Drop inconsistent metadata" close={() => setAsking(false)}>
          <p>This drops from the metadata, not from the database:</p>
          <Names names={found.map(({ name }) => name)} />
          {failure !== undefined && <Problem of={failure} />}
          <p class="row">
            <button type="button" class="danger" disabled={isBusy} onClick={() => void drop()}>
              Drop
            </button>
            <button type="button" onClick={() => setAsking(false)}>
              Cancel
            </button>
          </p>
        </Dialog>
      )}
    </section>
  )
}
