import type { ComponentChildren } from 'preact'
import { type Json, type JsonObject, textOf } from '../json.js'
import { conditionSentence, type RuleTable, variablesIn, variableWords } from 'rowhouse/sentence'
import { Code } from './code.js'

/** What `explain_permission` says, and `internal` of an error that a permission is the reason of. */
export interface Explained {
  readonly verdict: 'allowed' | 'refused'
  readonly reason?: 'permission' | 'row' | 'filter' | 'check' | 'request'
  readonly error?: { readonly path: string; readonly error: string; readonly code: string }
  readonly filter?: RuleResult
  readonly check?: RuleResult
  readonly columns?: {
    readonly allowed: readonly string[]
    readonly refused: readonly string[]
    /** Those that the role may read, but that no part of it sees in this row. */
    readonly null?: readonly string[]
  }
  readonly presets?: Json
  readonly limit?: number
  readonly session?: Readonly<Record<string, string | null>>
  readonly sql?: string
  /** Operation of the permission, in an error. */
  readonly operation?: string
}
interface RuleResult {
  readonly path: string
  readonly result: boolean | null
  readonly clause: JsonObject
  readonly all?: readonly RuleResult[]
  readonly any?: readonly RuleResult[]
  readonly not?: RuleResult
  readonly values?: JsonObject
  readonly rows?: readonly { readonly key: JsonObject; readonly rule: RuleResult }[]
  readonly more?: true
}

/** What was asked, as far as it is known. */
interface WhyAbout {
  readonly role?: string | undefined
  readonly operation?: string | undefined
  readonly table?: RuleTable | undefined
  readonly tables?: readonly RuleTable[]
}

/** Returns the answer in an error of the server, if there is one. */
export const explainedIn = (internal: Json | undefined): Explained | undefined =>
  typeof internal === 'object' && internal !== null && 'verdict' in internal
    ? (internal as unknown as Explained)
    : undefined

/** Why a role may or may not do something with a row: the verdict, and the rule part by part. */
export function Why({
  answer,
  about = {},
  children,
}: {
  readonly answer: Explained
  readonly about?: WhyAbout
  readonly children?: ComponentChildren
}) {
  const { verdict, filter, check, columns, presets, limit, session = {}, sql, error } = answer
  const role = about.role ?? 'the role'
  const doing = `${role} may ${verdict === 'allowed' ? '' : 'not '}${about.operation ?? 'do this'}`
  return (
    <section class="why" aria-label="Why?">
      <p class={`verdict ${verdict === 'allowed' ? 'good' : 'bad'}`} role="status">
        <b>{doing}</b>: {reasonOf(answer)}
      </p>
      {error && (
        <p class="soft">
          <code>{error.code}</code> at <code>{error.path}</code>
        </p>
      )}
      {children}
      {filter && <Tree title="The rule, for this row" rule={filter} session={session} about={about} />}
      {check && <Tree title="The rule for the row as it is written" rule={check} session={session} about={about} />}
      <dl>
        {Object.entries(session).map(([name, value]) => (
          <Fact key={name} name={variableWords(name)}>
            {value === null ? <i class="bad">not set</i> : <code>{value}</code>}
          </Fact>
        ))}
        {columns && <Fact name={`Columns to ${about.operation ?? 'use'}`}>{namesOf(columns.allowed)}</Fact>}
        {columns && columns.refused.length > 0 && <Fact name="Other columns">{namesOf(columns.refused)}</Fact>}
        {columns?.null && columns.null.length > 0 && <Fact name="Null in this row">{namesOf(columns.null)}</Fact>}
        {presets !== undefined && presets !== null && (
          <Fact name="Set by the server">
            <code>{JSON.stringify(presets)}</code>
          </Fact>
        )}
        {limit !== undefined && <Fact name="Rows per request, at most">{limit}</Fact>}
      </dl>
      {sql !== undefined && (
        <details>
          <summary>SQL of the request</summary>
          <Code text={sql} label="SQL" />
        </details>
      )}
    </section>
  )
}

const namesOf = (names: readonly string[]) => (names.length === 0 ? 'none' : names.join(', '))

const Fact = ({ name, children }: { readonly name: string; readonly children: ComponentChildren }) => (
  <div>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </div>
)

function reasonOf({ reason, error }: Explained): string {
  switch (reason) {
    case undefined:
      return 'the permission allows it.'
    case 'row':
      return 'there is no such row.'
    case 'filter':
      return 'the rule of the permission is not true for this row.'
    case 'check':
      return 'the rule for the written row is not true.'
    case 'permission':
    case 'request':
      return `${error?.error ?? 'the request fails'}.`
  }
}

type TreeProps = {
  readonly rule: RuleResult
  readonly session: Readonly<Record<string, string | null>>
  readonly about: WhyAbout
}

const Tree = ({ title, ...props }: TreeProps & { readonly title: string }) => (
  <>
    <h3>{title}</h3>
    <ul class="rule-tree">
      <Part {...props} />
    </ul>
  </>
)

/** A part of a rule with its mark, and the parts below it. */
function Part({ rule, session, about }: TreeProps) {
  const { all, any, not, rows, more, clause, values } = rule
  const parts = all ?? any ?? (not ? [not] : [])
  const [name = ''] = Object.keys(clause)
  const isCombined = all !== undefined || any !== undefined || not !== undefined
  const other = rows && relatedTable(name, about)
  return (
    <li>
      <Mark result={rule.result} />{' '}
      <span title={rule.path}>
        {isCombined
          ? combined(rule)
          : rows
            ? `a row of ${name}${relatedNote(rows.length, more)}`
            : conditionSentence(clause, about.table, about.tables)}
      </span>
      {!isCombined && !rows && <Compared values={values} clause={clause} session={session} />}
      {parts.length > 0 && (
        <ul>
          {parts.map((part) => (
            <Part key={part.path} rule={part} session={session} about={about} />
          ))}
        </ul>
      )}
      {rows && rows.length > 0 && (
        <ul>
          {rows.map(({ key, rule: inner }, i) => (
            <li key={i}>
              <span class="soft">{keyWords(key)}</span>
              <ul>
                <Part rule={inner} session={session} about={{ ...about, table: other }} />
              </ul>
            </li>
          ))}
        </ul>
      )}
    </li>
  )
}

const relatedTable = (name: string, { table, tables = [] }: WhyAbout): RuleTable | undefined => {
  const target = table?.relationships.find((each) => each.name === name)?.table
  return tables.find((each) => each.table.schema === target?.schema && each.table.name === target.name)
}

const relatedNote = (count: number, more: true | undefined): string =>
  count === 0 ? ' (there is none)' : more ? ` (the first ${count} are)` : ''

const keyWords = (key: JsonObject): string =>
  Object.entries(key)
    .map(([name, value]) => `${name} ${textOf(value)}`)
    .join(', ')

const combined = ({ all, any }: RuleResult): string =>
  all
    ? all.length === 0
      ? 'every row'
      : 'all of these'
    : any
      ? any.length === 0
        ? 'no row'
        : 'any of these'
      : 'not this'

/** The values on both sides of a comparison. */
function Compared({
  values = {},
  clause,
  session,
}: Pick<RuleResult, 'values' | 'clause'> & Pick<TreeProps, 'session'>) {
  const found = [
    ...Object.entries(values).map(([name, value]) => `${name} is ${JSON.stringify(value ?? null)}`),
    ...variablesIn(clause).map((name) => `${variableWords(name)} is ${session[name] ?? 'not set'}`),
  ]
  return found.length === 0 ? null : <span class="compared">{found.join(', ')}</span>
}

function Mark({ result }: Pick<RuleResult, 'result'>) {
  const [name, look] = result === true ? ['true', 'good'] : result === false ? ['false', 'bad'] : ['null', 'soft']
  return <b class={`mark-result ${look}`}>{name}</b>
}
