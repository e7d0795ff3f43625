import { useRef, useState } from 'preact/hooks'
import { send } from '../../api.js'
import { type Json, parse } from '../../json.js'
import { curlOf, fetchOf, type Request } from '../../program.js'
import { Code } from '../../ui/code.js'
import { Problem } from '../../ui/problem.js'
import { Tabs } from '../../ui/tabs.js'
import { argumentsOf, entriesFor } from './fields.js'
import { ParameterField } from './parameter-field.js'
import { notInUrl, requestOf } from './request.js'
import { type Result, ResultView } from './result.js'
import type { Runnable, Template } from './templates.js'

/** Runs a template as the caller, with the parameters of a form, and shows the call as a program makes it. */
export function Run({ template, runnable }: { readonly template: Template; readonly runnable: Runnable }) {
  const { parameters } = runnable
  const [entries, setEntries] = useState(() => entriesFor(parameters))
  const [wanted, setWanted] = useState<Request['method']>('GET')
  const [showsWrong, setShowsWrong] = useState(false)
  const [result, setResult] = useState<Result>()
  const [failure, setFailure] = useState<unknown>()
  const [isRunning, setRunning] = useState(false)
  const running = useRef<AbortController>(undefined)
  const { values, wrong } = argumentsOf(parameters, entries)
  const whyNot = notInUrl(template, values)
  const request = requestOf(template, whyNot === '' ? wanted : 'POST', values)

  const run = async () => {
    setShowsWrong(true)
    if (Object.keys(wrong).length > 0) return
    running.current?.abort()
    const { signal } = (running.current = new AbortController())
    setFailure(undefined)
    setRunning(true)
    try {
      const found = await call(request, signal)
      if (!signal.aborted) setResult(found)
    } catch (error) {
      if (!signal.aborted) {
        setResult(undefined)
        setFailure(error)
      }
    }
    if (running.current.signal === signal) setRunning(false)
  }
  const stop = () => {
    running.current?.abort()
    setRunning(false)
  }
  return (
    <div class="scroll body template-run">
      <form
        aria-label="Parameters"
        noValidate
        onSubmit={(event) => {
          event.preventDefault()
          void run()
        }}
      >
        {parameters.map((parameter) => (
          <ParameterField
            key={parameter.name}
            parameter={parameter}
            entry={entries[parameter.name]!}
            wrong={showsWrong ? wrong[parameter.name] : undefined}
            onChange={(entry) => setEntries({ ...entries, [parameter.name]: entry })}
          />
        ))}
        {parameters.length === 0 && <p class="soft">This template has no parameters.</p>}
        <p class="row">
          <button class="primary">{runnable.reads ? 'Run' : 'Run and write'}</button>
          {isRunning && (
            <button type="button" onClick={stop}>
              Stop
            </button>
          )}
          <span class="soft" role="status">
            {isRunning ? 'Running …' : (result?.figures ?? '')}
          </span>
        </p>
      </form>
      {failure !== undefined && <Problem of={failure} />}
      {result && <ResultView result={result} name={template.name} />}
      <Address request={request} whyNot={whyNot} onChoose={setWanted} />
    </div>
  )
}

/** @throws Failure */
async function call({ method, path, body }: Request, signal: AbortSignal): Promise<Result> {
  const started = performance.now()
  const response = await send(path, {
    method,
    signal,
    ...(body === undefined ? {} : { body, headers: { 'Content-Type': 'application/json' } }),
  })
  const text = await response.text()
  const ms = Math.round(performance.now() - started)
  const json: Json = text === '' ? null : parse(text)
  const rows = Array.isArray(json) ? `${json.length.toLocaleString('en')} ${json.length === 1 ? 'row' : 'rows'} · ` : ''
  return { json, figures: `${rows}${ms} ms` }
}

type Form = 'url' | 'curl' | 'fetch'
const FORMS = [
  { key: 'url', title: 'Address' },
  { key: 'curl', title: 'curl' },
  { key: 'fetch', title: 'fetch' },
] as const

/** The REST call with the values of the form. */
function Address({
  request,
  whyNot,
  onChoose,
}: {
  readonly request: Request
  readonly whyNot: string
  readonly onChoose: (method: Request['method']) => void
}) {
  const [form, setForm] = useState<Form>('url')
  const text = { url: urlText, curl: curlOf, fetch: fetchOf }[form](request)
  return (
    <section aria-label="The same call by a program" class="template-address">
      <h3>The same call by a program</h3>
      <div class="row">
        <Tabs label="Forms of the call" tabs={FORMS} chosen={form} onChoose={setForm} />
        <label class="row push">
          Method
          <select
            value={request.method}
            disabled={whyNot !== ''}
            onChange={({ currentTarget }) => onChoose(currentTarget.value as Request['method'])}
          >
            <option>GET</option>
            <option>POST</option>
          </select>
        </label>
      </div>
      {whyNot !== '' && <p class="soft">{whyNot} So the call is a POST.</p>}
      <Code label="Call" text={text} />
    </section>
  )
}

const urlText = ({ method, path, body }: Request): string =>
  body === undefined ? `${method} ${location.origin}${path}` : `${method} ${location.origin}${path}\n\n${body}`
