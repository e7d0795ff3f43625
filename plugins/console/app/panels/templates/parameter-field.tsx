import { type Entry, hintFor, kindOf, type Source, sourcesOf, typeText } from './fields.js'
import type { Parameter } from './templates.js'

/** The field of one parameter, by its type. Typing into it replaces the default. */
export function ParameterField({
  parameter,
  entry: { source, text },
  wrong,
  onChange,
}: {
  readonly parameter: Parameter
  readonly entry: Entry
  /** What is wrong with the value. */
  readonly wrong: string | undefined
  readonly onChange: (entry: Entry) => void
}) {
  const { name, required, schema } = parameter
  const sources = sourcesOf(parameter)
  const type = (now: string) => onChange({ source: 'value', text: now })
  const common = {
    'aria-label': name,
    'aria-invalid': wrong !== undefined,
    'aria-describedby': `about ${name}`.replaceAll(/\s/g, '-'),
    value: source === 'null' ? '' : text,
    placeholder: source === 'null' ? 'null' : hintFor(schema),
    class: source === 'value' ? 'mono' : 'mono soft',
    onInput: ({ currentTarget }: { readonly currentTarget: { readonly value: string } }) => type(currentTarget.value),
  }
  const plain = { autocomplete: 'off', spellcheck: false } as const
  const field = () => {
    switch (kindOf(schema)) {
      case 'boolean':
        return (
          <select {...common}>
            <option>true</option>
            <option>false</option>
          </select>
        )
      case 'date':
        return <input type="date" {...common} />
      case 'number':
        return <input inputMode="decimal" {...plain} {...common} />
      case 'list':
        return <textarea rows={3} {...plain} {...common} />
      case 'json':
        return <textarea rows={5} {...plain} {...common} />
      case 'text':
        return text.includes('\n') ? <textarea rows={3} {...plain} {...common} /> : <input {...plain} {...common} />
    }
  }
  return (
    <div class="parameter">
      <p>
        <b>{name}</b>{' '}
        <span class="soft" id={common['aria-describedby']}>
          {typeText(schema)}
          {kindOf(schema) === 'list' ? ', one on each line' : ''}
          {required ? ', required' : ''}
          {wrong !== undefined && <span class="bad">: {wrong}</span>}
        </span>
      </p>
      {field()}
      {sources.length > 1 && (
        <select
          aria-label={`Source of ${name}`}
          value={source}
          onChange={({ currentTarget }) => onChange({ source: currentTarget.value as Source, text })}
        >
          {sources.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      )}
    </div>
  )
}
