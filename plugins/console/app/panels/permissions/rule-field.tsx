import type { ComponentChildren } from 'preact'
import { useCallback } from 'preact/hooks'
import type { Table } from '../../catalog.js'
import { conditionSentence, variablesIn } from 'rowhouse/sentence'
import { Editor } from '../../ui/editor.js'
import { parsed } from './draft.js'
import { completeRule, checkRule } from './rule-names.js'
import type { Rules } from './rules.js'

/** An editor for a filter or a check, with what it says in words. */
export function RuleField({
  label,
  hint,
  value,
  onChange,
  table,
  rules,
  children,
}: {
  readonly label: string
  readonly hint: string
  readonly value: string
  readonly onChange: (value: string) => void
  readonly table: Table
  readonly rules: Rules
  readonly children?: ComponentChildren
}) {
  const check = useCallback((text: string) => (text.trim() === '' ? [] : checkRule(text, table, rules)), [table, rules])
  return (
    <section class="rule-field">
      <h3>{label}</h3>
      <Editor
        label={label}
        language="json"
        value={value}
        onChange={onChange}
        complete={(at) => completeRule(at, table, rules, variablesOf(rules))}
        check={check}
        placeholder={hint}
      />
      <Sentence text={value} table={table} rules={rules} />
      {children}
    </section>
  )
}

/** Says a rule in words. */
export function Sentence({
  text,
  table,
  rules,
}: {
  readonly text: string
  readonly table: Table
  readonly rules: Rules
}) {
  if (text.trim() === '') return <p class="soft">No rule.</p>
  const rule = parsed(text)
  if (rule === undefined) return <p class="bad">This is not JSON yet.</p>
  const isAll = typeof rule === 'object' && rule !== null && Object.keys(rule).length === 0
  return <p class="sentence">{isAll ? 'All rows.' : `Rows where ${conditionSentence(rule, table, rules.tables)}.`}</p>
}

/** Returns the session variables that rules name anywhere, and the user's id. */
function variablesOf({ permissions }: Rules): readonly string[] {
  const found = [...permissions.values()].flatMap(({ definition }) => variablesIn(definition))
  return [...new Set(['x-service-user-id', ...found])].map((name) =>
    name.replaceAll(/(^|-)[a-z]/g, (start) => start.toUpperCase()),
  )
}
