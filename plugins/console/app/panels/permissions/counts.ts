import { useEffect, useRef, useState } from 'preact/hooks'
import { query } from '../../api.js'
import { labelOf, type Table, wireName } from '../../catalog.js'
import { variablesIn } from 'rowhouse/sentence'
import { permissionAt, type Rules } from './rules.js'
import { triedVariables } from './session-fields.js'

/** Numbers of rows as texts, by `countKey`. */
export type Counts = ReadonlyMap<string, string>

/** @param role the role that sees the rows; undefined for all rows */
export const countKey = ({ table }: Table, role?: string): string => JSON.stringify([labelOf(table), role])

/** Counts the rows that roles see, when it is asked to. */
export function useCounts({ tables }: Rules) {
  const [counts, setCounts] = useState<Counts>(new Map())
  const [failure, setFailure] = useState<unknown>()
  const counting = useRef<AbortController>(undefined)
  const [isCounting, setCounting] = useState(false)
  useEffect(() => () => counting.current?.abort(), [])

  const count = async (roles: readonly string[]) => {
    const { signal } = (counting.current = new AbortController())
    const variables = triedVariables()
    setCounting(true)
    setFailure(undefined)
    setCounts(new Map())
    const one = async (table: Table, role?: string) => {
      const asked = { table: wireName(table.table) }
      const as = role === undefined ? null : { role, variables }
      const { count: rows } = await query<{ readonly count: number }>('count', asked, { as, signal })
      const found = NUMBER.format(rows)
      setCounts((before) => new Map([...before, [countKey(table, role), found]]))
    }
    try {
      for (const table of tables) {
        const mayRead = (role: string) => {
          const permission = permissionAt({ table: table.table, role, action: 'select' })
          return permission && variablesIn(permission.definition).every((name) => name in variables)
        }
        await Promise.all([one(table), ...roles.filter(mayRead).map((role) => one(table, role))])
      }
    } catch (error) {
      if (!signal.aborted) setFailure(error)
    }
    setCounting(false)
  }
  return { counts, failure, isCounting, count }
}

const NUMBER = new Intl.NumberFormat('en')
