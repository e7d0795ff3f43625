import { useEffect, useRef } from 'preact/hooks'
import type { Column } from '../../catalog.js'
import { Editor } from '../../ui/editor.js'
import { kindOf } from './values.js'

/** A field for a value of a column. Enter submits the form around it, and Ctrl-Enter in an editor. */
export function ValueInput({
  column,
  label,
  text,
  onText,
  placeholder,
  isFocused = false,
}: {
  readonly column: Pick<Column, 'type' | 'values'>
  readonly label: string
  readonly text: string
  readonly onText: (text: string) => void
  readonly placeholder?: string | undefined
  readonly isFocused?: boolean
}) {
  const box = useRef<HTMLDivElement>(null)
  const field = useRef<HTMLInputElement & HTMLTextAreaElement & HTMLSelectElement>(null)
  useEffect(() => {
    if (!isFocused) return
    field.current?.focus()
    if (field.current instanceof HTMLInputElement) field.current.select()
  }, [])
  const kind = kindOf(column)
  const common = {
    'aria-label': label,
    ref: field,
    value: text,
    placeholder,
    autocomplete: 'off' as const,
    spellcheck: false,
    onInput: ({ currentTarget }: { readonly currentTarget: { readonly value: string } }) => onText(currentTarget.value),
  }
  if (kind === 'json') {
    return (
      <div class="value-editor" ref={box}>
        <Editor
          label={label}
          language="json"
          value={text}
          onChange={onText}
          onRun={() => box.current?.closest('form')?.requestSubmit()}
          placeholder={placeholder ?? ''}
          isFocused={isFocused}
        />
      </div>
    )
  }
  if (kind === 'boolean' || kind === 'choice') {
    const values = kind === 'boolean' ? ['true', 'false'] : (column.values ?? [])
    return (
      <select {...common} onChange={common.onInput}>
        {!values.includes(text) && <option value={text}>{text === '' ? (placeholder ?? '') : text}</option>}
        {values.map((each) => (
          <option key={each} value={each}>
            {each}
          </option>
        ))}
      </select>
    )
  }
  if (kind === 'text' && /^(text|varchar|bpchar|citext|xml)$/.test(column.type)) {
    return (
      <textarea
        {...common}
        rows={Math.min(8, Math.max(1, text.split('\n').length, Math.ceil(text.length / 40)))}
        onKeyDown={(event) => {
          if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return
          event.preventDefault()
          event.currentTarget.form?.requestSubmit()
        }}
      />
    )
  }
  if (kind === 'date' && /^(\d{4}-\d\d-\d\d)?$/.test(text)) return <input {...common} type="date" />
  return (
    <input
      {...common}
      inputMode={kind === 'number' ? 'decimal' : undefined}
      placeholder={placeholder ?? (column.type.startsWith('timestamp') ? '2024-01-31 12:00' : undefined)}
    />
  )
}
