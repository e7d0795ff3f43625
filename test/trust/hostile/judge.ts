import type { Kind } from './kind.js'

/** What came back; without a status: the connection ended without a whole answer. */
export interface Reply {
  readonly status?: number
  readonly text: string
  readonly retryAfter?: string | undefined
}

/** What a reply is, in a word, and what is wrong with it. */
export interface Verdict {
  readonly word: string
  readonly wrong?: string
}

interface Failure {
  readonly path?: unknown
  readonly code?: unknown
  readonly error?: unknown
  readonly message?: unknown
  readonly extensions?: { readonly path?: unknown; readonly code?: unknown }
}

/** Holds a reply against what is documented: a refusal without data, with a path and a code, and never a 500. */
export function judge(kind: Kind, { status, text, retryAfter }: Reply): Verdict {
  if (status === undefined) return kind.mayCut === true ? { word: 'cut' } : { word: 'cut', wrong: `no answer: ${text}` }
  const body = parsed(text)
  if (body === undefined) return { word: String(status), wrong: `no JSON: ${text.slice(0, 200)}` }
  const wrong = (what: string): Verdict => ({ word: String(status), wrong: `${what}: ${status} ${text.slice(0, 300)}` })
  if (status >= 500 && status !== 503 && status !== 504) return wrong('a fault of the server')
  if (status === 503 && retryAfter === undefined) return wrong('no Retry-After')

  if (status === 200 && kind.path === '/v1/query') return kind.refused ? wrong('not refused') : { word: 'answered' }
  const answers = Array.isArray(body) ? (body as unknown[]) : [body]
  const words = new Set<string>()
  for (const each of answers) {
    const { data, errors } = each as { data?: unknown; errors?: readonly Failure[] }
    if (status === 200 && data !== undefined && data !== null) {
      if (kind.refused) return wrong('data for what should be refused')
      if (errors !== undefined) return wrong('data and errors')
      words.add('answered')
      continue
    }
    for (const failure of errors ?? [each as Failure]) {
      const { path, code } = failure.extensions ?? failure
      if (typeof code !== 'string' || typeof path !== 'string' || !path.startsWith('$')) return wrong('no code or path')
      if (typeof (failure.error ?? failure.message) !== 'string') return wrong('no message')
      if (code === 'unexpected') return wrong('a fault of the server')
      words.add(code)
    }
  }
  return { word: [...words].join('+') }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
