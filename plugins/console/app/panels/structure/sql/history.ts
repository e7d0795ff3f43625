const KEY = 'rowhouse-sql-history'
const MOST = 50
/** Longer texts, such as dumps, are not kept. */
const MOST_CHARACTERS = 20_000

/** Returns the texts that ran in this browser tab, the last one first. */
export function readHistory(): readonly string[] {
  try {
    const found: unknown = JSON.parse(sessionStorage.getItem(KEY) ?? '[]')
    return Array.isArray(found) ? found.filter((each) => typeof each === 'string') : []
  } catch {
    return []
  }
}

/** @returns the history with a text that ran */
export function remember(sql: string): readonly string[] {
  const others = readHistory().filter((each) => each !== sql)
  const all = sql.length > MOST_CHARACTERS ? others : [sql, ...others].slice(0, MOST)
  try {
    sessionStorage.setItem(KEY, JSON.stringify(all))
  } catch {
    // The storage is full. The history is a convenience.
  }
  return all
}
