import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { Failure, recovered } from '../../api.js'
import { type JsonObject, parse } from '../../json.js'
import { partsOf, pathOf, placeOf } from '../../json-places.js'
import { isAdmin } from '../../session.js'
import { Dialog } from '../../ui/dialog.js'
import { Editor } from '../../ui/editor.js'
import { Explanation, explainQuery } from '../../ui/explanation.js'
import { type Choice, guess } from '../../ui/figures.js'
import { flatten, pretty } from '../../ui/flat.js'
import { Problem } from '../../ui/problem.js'
import { Tabs } from '../../ui/tabs.js'
import { AnswerView, type View } from './answer.js'
import { complete } from './complete.js'
import { type Example, examples, firstRequest } from './examples.js'
import { EXPLAINED, TEMPLATED } from './operations.js'
import { PastDialog } from './past.js'
import {
  addQuestion,
  canAdd,
  changeQuestion,
  chosen,
  closeQuestion,
  type Question,
  questions,
  readQuestions,
  remember,
} from './questions.js'
import { type Answer, run } from './run.js'
import { TemplateDialog } from './template.js'

/** Requests to the JSON API, each in a tab. */
export function Api() {
  const [isReady, setReady] = useState(false)
  useEffect(() => {
    readQuestions(firstRequest)
    setReady(true)
  }, [])
  const question = questions.value.find(({ id }) => id === chosen.value)
  if (!isReady || !question) return <p class="wait">Loading …</p>
  return (
    <>
      <div class="question-tabs">
        <Tabs
          label="Questions"
          tabs={questions.value.map(({ id, name }) => ({ key: id, title: name || 'Untitled' }))}
          chosen={question.id}
          onChoose={(id) => (chosen.value = id)}
        />
        <button type="button" class="quiet" disabled={!canAdd()} onClick={() => addQuestion(firstRequest())}>
          New
        </button>
        <button type="button" class="quiet" onClick={() => closeQuestion(question.id, firstRequest)}>
          Close tab
        </button>
      </div>
      <Asking key={question.id} question={question} />
    </>
  )
}

type Open = 'explain' | 'template' | 'past' | undefined

function Asking({ question: { id, name, text } }: { readonly question: Question }) {
  const [answer, setAnswer] = useState<Answer>()
  const [failure, setFailure] = useState<{ readonly of: unknown; readonly text: string }>()
  const [running, setRunning] = useState<AbortController>()
  const [isDry, setDry] = useState(false)
  const [view, setView] = useState<View>('grid')
  const [plot, setPlot] = useState<Choice>()
  const [open, setOpen] = useState<Open>()
  const current = useRef<AbortController>(undefined)
  useEffect(() => () => current.current?.abort(), [])
  const isRecovered = recovered.value
  useEffect(() => {
    // What failed because the server was away has no meaning any more.
    setFailure((before) => (before?.of instanceof Failure && [0, 503].includes(before.of.status) ? undefined : before))
  }, [isRecovered])

  const request = useMemo(() => requestOf(text), [text])
  const type = typeof request?.['type'] === 'string' ? request['type'] : ''
  const start = async () => {
    current.current?.abort()
    const reading = new AbortController()
    current.current = reading
    setRunning(reading)
    setFailure(undefined)
    setAnswer(undefined)
    remember(text)
    try {
      await run(text, type, isDry, reading.signal, (found) => {
        if (current.current === reading) setAnswer(found)
      })
    } catch (error) {
      if (!reading.signal.aborted) setFailure({ of: error, text })
    } finally {
      if (current.current === reading) setRunning(undefined)
    }
  }
  const check = useCallback(
    (shown: string) => {
      const { root, mistake } = partsOf(shown)
      if (mistake) return [mistake]
      const refused = failure?.of
      if (!(refused instanceof Failure) || failure?.text !== shown) return []
      return [{ ...placeOf(root, pathOf(refused.path)), message: refused.message }]
    },
    [failure],
  )
  const edit = (next: string) => changeQuestion(id, { text: next })
  const shownPlot = () => (view === 'plot' && answer?.rows ? (plot ?? guess(flatten(answer.rows))) : undefined)
  const canExplain = isAdmin.value && EXPLAINED.includes(type)
  const canKeep = isAdmin.value && TEMPLATED.includes(type)
  return (
    <>
      <div class="bar">
        {running ? (
          <button type="button" class="danger" onClick={() => running.abort()}>
            Stop
          </button>
        ) : (
          <button type="button" class="primary" title="Ctrl-Enter" disabled={!request} onClick={() => void start()}>
            Run
          </button>
        )}
        <label class="dry-run" title="Answer as usual, and roll it back">
          <input type="checkbox" checked={isDry} onChange={({ currentTarget }) => setDry(currentTarget.checked)} /> Dry
          run
        </label>
        <button type="button" disabled={!canExplain} onClick={() => setOpen('explain')}>
          Explain
        </button>
        {isAdmin.value && (
          <button type="button" disabled={!canKeep} onClick={() => setOpen('template')}>
            Keep as template
          </button>
        )}
        <button type="button" disabled={!request} onClick={() => request && edit(pretty(request, '', 52))}>
          Format
        </button>
        <button type="button" onClick={() => setOpen('past')}>
          History
        </button>
        <input
          class="push question-name"
          aria-label="Name of this tab"
          value={name}
          maxLength={40}
          onInput={({ currentTarget }) => changeQuestion(id, { name: currentTarget.value })}
        />
      </div>
      <div class="asking">
        <section class="question" aria-label="Request">
          <Editor
            label="Request"
            language="json"
            value={text}
            onChange={edit}
            onRun={() => {
              if (request) void start()
            }}
            complete={(at) => complete(at, isAdmin.value)}
            check={check}
          />
          <Examples
            onPick={(example) => {
              edit(example.text)
              setView(example.view ?? 'grid')
              setPlot(undefined)
            }}
          />
        </section>
        <section class="answer" aria-label="Answer">
          {failure !== undefined && <Problem of={failure.of} />}
          {answer ? (
            <AnswerView answer={answer} wanted={view} onWant={setView} plot={plot} onPlot={setPlot} />
          ) : (
            failure === undefined && <Idle isRunning={running !== undefined} />
          )}
        </section>
      </div>
      {open === 'explain' && request && (
        <Dialog title="Explain" close={() => setOpen(undefined)}>
          <Explanation explain={explainQuery(request)} isWrite={['insert', 'update', 'delete'].includes(type)} />
        </Dialog>
      )}
      {open === 'template' && request && (
        <TemplateDialog request={request} plot={shownPlot()} close={() => setOpen(undefined)} />
      )}
      {open === 'past' && <PastDialog close={() => setOpen(undefined)} />}
    </>
  )
}

const Idle = ({ isRunning }: { readonly isRunning: boolean }) =>
  isRunning ? (
    <p class="wait" role="status">
      Waiting for the answer …
    </p>
  ) : (
    <p class="empty">Ctrl-Enter runs the request. Ctrl-Space completes tables, columns and operators.</p>
  )

/** Requests about the tables of the caller, one click away. */
function Examples({ onPick }: { readonly onPick: (example: Example) => void }) {
  const all = useMemo(examples, [])
  if (all.length === 0) return null
  return (
    <p class="examples">
      <span class="soft">Examples</span>
      {all.map((example) => (
        <button type="button" class="quiet" key={example.title} onClick={() => onPick(example)}>
          {example.title}
        </button>
      ))}
    </p>
  )
}

/** Returns the request of a text; undefined while the text is none. */
function requestOf(text: string): JsonObject | undefined {
  try {
    const found = parse(text)
    return typeof found === 'object' && found !== null && !Array.isArray(found) ? (found as JsonObject) : undefined
  } catch {
    return undefined
  }
}
