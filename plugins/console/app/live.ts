import { Failure, send } from './api.js'
import { isObject, type Json, parse, textAt } from './json.js'

const RETRY_MS = 2000
const QUERY = 'rows'

/**
 * Tells the answer to a live query, and again whenever it is another one. Connects again until `signal` is aborted.
 * @throws Failure when the caller may not ask this, or not any more
 */
export async function follow<T>(
  type: string,
  args: unknown,
  tell: (answer: T) => void,
  signal: AbortSignal,
): Promise<void> {
  const body = JSON.stringify({ [QUERY]: { type, args } })
  let known = ''
  while (!signal.aborted) {
    try {
      const headers = { 'Content-Type': 'application/json', ...(known === '' ? {} : { 'Last-Event-ID': known }) }
      const response = await send('/v1/live', { method: 'POST', body, headers, signal })
      for await (const { event, id, data } of eventsOf(response)) {
        const answer = event === QUERY ? parse(data) : null
        if (event === QUERY && isObject(answer)) throw failureOf(answer)
        if (event === QUERY) tell(answer as T)
        known = id ?? known
      }
    } catch (error) {
      if (signal.aborted) return
      if (error instanceof Failure && error.status >= 400 && error.status < 500 && error.status !== 429) throw error
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS))
  }
}

/** Answers that are lists cannot be taken for an error. */
function failureOf(answer: Json): Failure {
  const error = isObject(answer) && isObject(answer['error']) ? answer['error'] : {}
  return new Failure(400, { ...error, error: textAt(error, 'error') ?? 'the rows cannot be read any more' })
}

interface Event {
  readonly event: string
  readonly id: string | undefined
  readonly data: string
}

async function* eventsOf(response: Response): AsyncGenerator<Event, void, undefined> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  try {
    let text = ''
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      const blocks = (text + part.value).split('\n\n')
      text = blocks.pop() ?? ''
      for (const block of blocks) yield eventIn(block)
    }
  } finally {
    await reader.cancel().catch(() => {})
  }
}

function eventIn(block: string): Event {
  const values = (name: string) =>
    block.split('\n').flatMap((line) => (line.startsWith(`${name}: `) ? [line.slice(name.length + 2)] : []))
  return { event: values('event')[0] ?? 'message', id: values('id')[0], data: values('data').join('\n') }
}
