import { useCallback, useEffect, useMemo, useState } from 'preact/hooks'
import { ask, recovered } from '../../api.js'
import { Confirm } from '../../ui/confirm.js'
import { Editor, type Place } from '../../ui/editor.js'
import { Problem } from '../../ui/problem.js'
import type { ProvidersByChannel } from './provider.js'
import { SendTest } from './send-test.js'
import { bodyOf, type Draft, type Part, problemOf, type TemplateProblem, TEMPLATES, variablesOf } from './template.js'
import { Preview, type Rendered } from './template-preview.js'

interface TemplateEditorProps {
  readonly stored: Draft
  readonly isNew?: boolean
  readonly providers: ProvidersByChannel | undefined
  /** Called after the template was stored, or deleted with an empty name. */
  readonly done: (name: string) => void
}

/** A template beside what it becomes with example values. */
export function TemplateEditor({ stored, isNew = false, providers, done }: TemplateEditorProps) {
  const [draft, setDraft] = useState(stored)
  const [saved, setSaved] = useState(stored)
  const [values, setValues] = useState<Readonly<Record<string, string>>>({})
  const [failure, setFailure] = useState<unknown>()
  const [open, setOpen] = useState<'test' | 'delete'>()
  const names = useMemo(() => variablesOf(draft), [draft])
  const examples = names.map((name) => [name, values[name] ?? name] as const)
  const { rendered, problem } = usePreview(draft, examples)
  const isChanged = JSON.stringify(draft) !== JSON.stringify(saved)
  const change = (part: keyof Draft) => (text: string) => setDraft((before) => ({ ...before, [part]: text }))
  const save = async () => {
    try {
      const comment = draft.comment === '' ? null : draft.comment
      await ask(`${TEMPLATES}/${encodeURIComponent(draft.name)}`, {
        method: 'PUT',
        json: { ...bodyOf(draft), comment },
      })
      setSaved(draft)
      setFailure(undefined)
      done(draft.name)
    } catch (error) {
      setFailure(error)
    }
  }
  const places = (part: Part) => (problem?.part === part && problem.place ? [problem.place] : NONE)
  return (
    <form
      class="template"
      onSubmit={(event) => {
        event.preventDefault()
        void save()
      }}
    >
      <div class="bar">
        {isNew ? (
          <input
            aria-label="Name"
            placeholder="Name, such as welcome"
            required
            pattern="[A-Za-z0-9_.\-]{1,64}"
            autocomplete="off"
            spellcheck={false}
            value={draft.name}
            onInput={({ currentTarget }) => change('name')(currentTarget.value)}
          />
        ) : (
          <h2>{stored.name}</h2>
        )}
        <span class="soft" role="status">
          {isChanged ? 'Not saved' : isNew ? '' : 'Saved'}
        </span>
        <button class="primary push" disabled={!isNew && !isChanged}>
          Save
        </button>
        <button
          type="button"
          disabled={!rendered || problem !== undefined || !providers}
          onClick={() => setOpen('test')}
        >
          Send a test
        </button>
        {!isNew && (
          <button type="button" class="danger" onClick={() => setOpen('delete')}>
            Delete
          </button>
        )}
      </div>
      {failure !== undefined && <Problem of={failure} />}
      <div class="sides">
        <div class="parts">
          <label>
            Subject
            <input
              required
              spellcheck={false}
              aria-invalid={problem?.part === 'subject'}
              aria-describedby={problem?.part === 'subject' ? 'subject-problem' : undefined}
              value={draft.subject}
              onInput={({ currentTarget }) => change('subject')(currentTarget.value)}
            />
          </label>
          {problem?.part === 'subject' && <PlacedProblem id="subject-problem" problem={problem} />}
          <Body title="HTML" value={draft.html} onChange={change('html')} places={places('html')} />
          {problem?.part === 'html' && <PlacedProblem problem={problem} />}
          <Body title="Text" value={draft.text} onChange={change('text')} places={places('text')} />
          {problem?.part === 'text' && <PlacedProblem problem={problem} />}
          <label>
            Comment
            <input
              value={draft.comment}
              maxLength={1000}
              onInput={({ currentTarget }) => change('comment')(currentTarget.value)}
            />
          </label>
        </div>
        <Preview
          examples={examples}
          setExample={(name, value) => setValues((before) => ({ ...before, [name]: value }))}
          rendered={rendered}
          isStale={problem !== undefined}
          failure={problem?.part === undefined ? problem?.failure : undefined}
        />
      </div>
      {open === 'test' && providers && rendered && (
        <SendTest
          channel="email"
          providers={providers.email}
          mail={{ sub: rendered.subject, text: rendered.text, html: rendered.html }}
          close={() => setOpen(undefined)}
        />
      )}
      {open === 'delete' && <Delete name={stored.name} close={() => setOpen(undefined)} done={() => done('')} />}
    </form>
  )
}

const NONE = [] as const

function Body({
  title,
  places,
  ...props
}: {
  readonly title: string
  readonly value: string
  readonly onChange: (text: string) => void
  readonly places: readonly Place[]
}) {
  // The editor asks again when this function changes.
  const check = useCallback(() => places, [JSON.stringify(places)])
  return (
    <div class="part">
      <p>{title}</p>
      <Editor label={title} language="text" check={check} {...props} />
    </div>
  )
}

const PlacedProblem = ({
  problem: { place, failure },
  id,
}: {
  readonly problem: TemplateProblem
  readonly id?: string
}) => (
  <p class="bad" id={id} role="status">
    {place?.message ?? String(failure)}
  </p>
)

const TYPING_MS = 300

/** Renders a template with example values, soon after they have changed. Empty values are left out. */
function usePreview(draft: Draft, examples: readonly (readonly [name: string, value: string])[]) {
  const [state, setState] = useState<{ readonly rendered?: Rendered; readonly problem?: TemplateProblem }>({})
  const templateContent = examples.flatMap(([name, content]) => (content === '' ? [] : [{ name, content }]))
  const json = { ...bodyOf(draft), templateContent }
  const key = JSON.stringify(json)
  useEffect(() => {
    const asking = new AbortController()
    const timer = setTimeout(() => {
      ask<Rendered>(`${TEMPLATES}/preview`, { json, signal: asking.signal }).then(
        (rendered) => setState({ rendered }),
        (failure: unknown) => {
          if (!asking.signal.aborted) setState((before) => ({ ...before, problem: problemOf(failure, draft) }))
        },
      )
    }, TYPING_MS)
    return () => {
      clearTimeout(timer)
      asking.abort()
    }
  }, [key, recovered.value])
  return state
}

function Delete({
  name,
  close,
  done,
}: {
  readonly name: string
  readonly close: () => void
  readonly done: () => void
}) {
  const remove = async () => {
    await ask(`${TEMPLATES}/${encodeURIComponent(name)}`, { method: 'DELETE' })
    done()
  }
  return (
    <Confirm title={`Delete the template ${name}`} verb="Delete" run={remove} close={close}>
      <p>Requests that name it then fail. Messages that were sent stay.</p>
    </Confirm>
  )
}
