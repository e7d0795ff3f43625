import { signal } from '@preact/signals'
import { session } from '../../session.js'

/** A text that somebody writes in a tab. */
export interface Question {
  readonly id: string
  readonly name: string
  readonly text: string
}

interface Asked {
  readonly text: string
  /** ISO 8601. */
  readonly at: string
}

const MOST_QUESTIONS = 12
const MOST_ASKED = 100
/** Longer texts, such as those of imports, are not kept. */
const MOST_CHARACTERS = 20_000

/** The tabs. They are kept as long as the browser's tab. */
export const questions = signal<readonly Question[]>([])
export const chosen = signal('')
/** What was asked, the latest first: the texts, without their answers. */
export const asked = signal<readonly Asked[]>([])

const keyOf = (what: string) =>
  `rowhouse-${what}-${session.value?.role ?? ''}-${session.value?.variables['x-service-user-id'] ?? ''}`

/** Reads what the browser keeps for the role that signed in. */
export function readQuestions(first: () => string): void {
  questions.value = read<Question>(sessionStorage, keyOf('questions'))
  asked.value = read<Asked>(localStorage, keyOf('asked'))
  if (questions.value.length === 0) addQuestion(first())
  else if (!questions.value.some(({ id }) => id === chosen.value)) chosen.value = questions.value[0]!.id
}

export function addQuestion(text: string, name?: string): void {
  if (questions.value.length >= MOST_QUESTIONS) return
  const id = crypto.randomUUID?.() ?? String(Math.random())
  const numbers = questions.value.map((each) => Number(/^Question (\d+)$/.exec(each.name)?.[1] ?? 0))
  keep([...questions.value, { id, name: name ?? `Question ${Math.max(0, ...numbers) + 1}`, text }])
  chosen.value = id
}

export const canAdd = (): boolean => questions.value.length < MOST_QUESTIONS

export function changeQuestion(id: string, by: Partial<Question>): void {
  keep(questions.value.map((each) => (each.id === id ? { ...each, ...by } : each)))
}

export function closeQuestion(id: string, first: () => string): void {
  const index = questions.value.findIndex((each) => each.id === id)
  keep(questions.value.filter((each) => each.id !== id))
  if (questions.value.length === 0) addQuestion(first())
  else chosen.value = questions.value[Math.max(0, index - 1)]!.id
}

function keep(all: readonly Question[]): void {
  questions.value = all
  write(sessionStorage, keyOf('questions'), all)
}

/** Keeps a text in the history, unless it is long or mentions something secret. */
export function remember(text: string): void {
  if (text.length > MOST_CHARACTERS || /password|passwd|secret|token|credential|api.?key/i.test(text)) return
  const others = asked.value.filter((each) => each.text !== text)
  asked.value = [{ text, at: new Date().toISOString() }, ...others].slice(0, MOST_ASKED)
  write(localStorage, keyOf('asked'), asked.value)
}

export function forgetAsked(): void {
  asked.value = []
  localStorage.removeItem(keyOf('asked'))
}

function read<T>(storage: Storage, key: string): readonly T[] {
  try {
    const found = JSON.parse(storage.getItem(key) ?? '[]') as readonly T[]
    return Array.isArray(found) ? found : []
  } catch {
    return []
  }
}

function write(storage: Storage, key: string, value: unknown): void {
  try {
    storage.setItem(key, JSON.stringify(value))
  } catch {
    // The browser's storage is full or off. Then nothing is kept.
  }
}
