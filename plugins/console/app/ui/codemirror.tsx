import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from '@codemirror/autocomplete'
import type { Completion, CompletionContext } from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { json } from '@codemirror/lang-json'
import { PostgreSQL, sql } from '@codemirror/lang-sql'
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from '@codemirror/language'
import { lintGutter, lintKeymap, linter } from '@codemirror/lint'
import { Annotation, EditorState, type Extension, StateEffect } from '@codemirror/state'
import { EditorView, keymap, lineNumbers, placeholder, type ViewUpdate } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'

/** A part of the text that is wrong. */
export interface Place {
  readonly from: number
  readonly to: number
  readonly message: string
}

/** What completion knows about the place of the cursor. */
export interface Completing {
  readonly text: string
  readonly position: number
  /** The document as CodeMirror has it, with its syntax tree. */
  readonly context: CompletionContext
}

export interface Completions {
  readonly from: number
  readonly to?: number
  readonly options: readonly Completion[]
}

export interface EditorProps {
  readonly label: string
  readonly language: 'json' | 'sql' | 'text'
  readonly value: string
  readonly onChange?: (value: string) => void
  /** Called for Ctrl-Enter. */
  readonly onRun?: () => void
  /** Returns what may stand at the cursor, and where the word begins that it replaces. The word ends at the cursor unless `to` is given. */
  readonly complete?: (at: Completing) => Completions | null
  /** Returns what is wrong with a text. The text is checked again when this function changes. */
  readonly check?: (text: string) => readonly Place[] | Promise<readonly Place[]>
  readonly placeholder?: string
  readonly readOnly?: boolean
  /** Whether it takes the focus when it is shown. */
  readonly isFocused?: boolean
}

const CHECK_AGAIN = StateEffect.define<null>()
/** Marks a change that comes from the value, not from somebody who writes. */
const GIVEN = Annotation.define<boolean>()

const STYLE = HighlightStyle.define([
  { tag: tags.propertyName, color: 'var(--busy)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--good)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--odd)' },
  { tag: tags.keyword, color: 'var(--brick)' },
  { tag: tags.comment, color: 'var(--soft)' },
])

const THEME = EditorView.theme({
  '&': {
    height: '100%',
    borderRadius: 'inherit',
    color: 'var(--ink)',
    backgroundColor: 'var(--card)',
    fontSize: '0.875rem',
  },
  '&.cm-focused': { outline: 'none' },
  // Above the numbers of lines, which would hide a part of an outline.
  '&.cm-focused::after': {
    content: '""',
    position: 'absolute',
    zIndex: '300',
    inset: '0',
    border: '3px solid var(--brick)',
    borderRadius: 'inherit',
    pointerEvents: 'none',
  },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.5' },
  '.cm-content': { caretColor: 'var(--ink)' },
  '.cm-gutters': { backgroundColor: 'var(--paper)', color: 'var(--soft)', border: 'none' },
  '.cm-placeholder': { color: 'var(--soft)' },
  '.cm-cursor': { borderLeftColor: 'var(--ink)' },
  '&.cm-focused .cm-selectionBackground, .cm-selectionBackground': { backgroundColor: 'var(--line)' },
  '.cm-tooltip': { backgroundColor: 'var(--card)', color: 'var(--ink)', border: '1px solid var(--line)' },
  '.cm-tooltip-autocomplete ul li[aria-selected]': { backgroundColor: 'var(--chosen)', color: 'var(--brick)' },
  '.cm-matchingBracket': { backgroundColor: 'var(--chosen)' },
})

const LANGUAGES: Readonly<Record<EditorProps['language'], readonly Extension[]>> = {
  json: [json()],
  sql: [sql({ dialect: PostgreSQL })],
  text: [],
}

/** The editor itself. Only `ui/editor.tsx` imports it, because it is large. */
export default function CodeMirror(props: EditorProps) {
  const box = useRef<HTMLDivElement>(null)
  const view = useRef<EditorView>(undefined)
  // What was written here and has not come back as the value. Fast writing is ahead of it.
  const written = useRef<string[]>([])
  const latest = useRef(props)
  latest.current = props
  const { value, label, language, readOnly = false, check } = props

  useEffect(() => {
    const made = new EditorView({
      parent: box.current!,
      state: EditorState.create({ doc: latest.current.value, extensions: extensionsFor(latest, written.current) }),
    })
    view.current = made
    if (latest.current.isFocused) made.focus()
    return () => made.destroy()
  }, [label, language, readOnly])

  // Not after the browser painted: a letter that is typed until then would be taken back.
  useLayoutEffect(() => {
    const shown = view.current
    const echo = written.current.indexOf(value)
    written.current.splice(0, echo < 0 ? Infinity : echo + 1)
    if (!shown || echo >= 0 || shown.state.doc.toString() === value) return
    shown.dispatch({
      changes: { from: 0, to: shown.state.doc.length, insert: value },
      annotations: GIVEN.of(true),
    })
  }, [value])
  useEffect(() => view.current?.dispatch({ effects: CHECK_AGAIN.of(null) }), [check])
  return <div class="editor" ref={box} />
}

function extensionsFor(latest: { readonly current: EditorProps }, written: string[]): Extension[] {
  const { label, language, readOnly = false, placeholder: hint, complete, check } = latest.current
  const nonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? ''
  const run = () => {
    latest.current.onRun?.()
    return latest.current.onRun !== undefined
  }
  return [
    EditorView.cspNonce.of(nonce),
    keymap.of([{ key: 'Mod-Enter', run, preventDefault: true }]),
    lineNumbers(),
    history(),
    bracketMatching(),
    closeBrackets(),
    indentOnInput(),
    EditorView.lineWrapping,
    EditorView.domEventHandlers({ beforeinput: typeOver }),
    EditorState.readOnly.of(readOnly),
    EditorView.contentAttributes.of({ 'aria-label': label }),
    syntaxHighlighting(STYLE),
    THEME,
    ...LANGUAGES[language],
    ...(hint === undefined ? [] : [placeholder(hint)]),
    ...(complete === undefined
      ? []
      : [autocompletion({ override: [(context) => completions(latest.current, context)] })]),
    ...(check === undefined ? [] : [lintGutter(), linter((shown) => problems(latest.current, shown), CHECKING)]),
    keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, ...completionKeymap, ...lintKeymap]),
    EditorView.updateListener.of((update) => {
      if (!update.docChanged || update.transactions.some((each) => each.annotation(GIVEN))) return
      const text = update.state.doc.toString()
      written.push(text)
      latest.current.onChange?.(text)
    }),
  ]
}

const CHECKING = {
  delay: 400,
  needsRefresh: ({ transactions }: ViewUpdate) =>
    transactions.some(({ effects }) => effects.some((each) => each.is(CHECK_AGAIN))),
}

/**
 * Replaces the selection by what is typed. Browsers would give it the colour of what was there by a style attribute, which
 * the page's policy refuses.
 */
function typeOver(event: InputEvent, view: EditorView): boolean {
  const { state } = view
  const { data } = event
  const { from, to, empty } = state.selection.main
  if (event.inputType !== 'insertText' || !data || empty || view.composing) return false
  const insert = () => view.state.update(view.state.replaceSelection(data), { userEvent: 'input.type' })
  const isHandled = state.facet(EditorView.inputHandler).some((handle) => handle(view, from, to, data, insert))
  if (!isHandled) view.dispatch(insert())
  return true
}

function completions({ complete }: EditorProps, context: CompletionContext) {
  const text = context.state.doc.toString()
  const found = complete?.({ text, position: context.pos, context })
  if (!found) return null
  // CodeMirror finds nothing that resembles two quotes.
  const filter = text.slice(found.from, found.to) !== '""'
  return { ...found, options: [...found.options], filter }
}

async function problems({ check }: EditorProps, { state }: EditorView) {
  const found = (await check?.(state.doc.toString())) ?? []
  const { length } = state.doc
  return found.map(({ from, to, message }) => ({
    from: Math.min(from, length),
    to: Math.min(Math.max(to, from), length),
    severity: 'error' as const,
    message,
  }))
}
