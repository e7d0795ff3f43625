import { createContext } from 'preact'
import { useCallback, useContext, useEffect, useState } from 'preact/hooks'
import { type Asking, query, recovered } from '../../api.js'
import { type Catalog, readCatalog, type TableName } from '../../catalog.js'
import type { Json, JsonObject } from '../../json.js'

/** A table's name in requests and exports. */
export type WireName = string | TableName

/** An entry of an export with a name. */
interface Named {
  readonly name: string
  readonly comment?: string | null
}
interface RelationshipEntry extends Named {
  readonly using: Json
}
interface ComputedFieldEntry extends Named {
  readonly definition: JsonObject
}
/** Names in GraphQL. */
export interface Customization extends JsonObject {
  readonly custom_name?: string
  readonly custom_root_fields?: Readonly<Record<string, string>>
  readonly column_config?: Readonly<Record<string, { readonly custom_name?: string }>>
}
type Permissions = readonly { readonly role: string }[]

export interface TableEntry {
  readonly table: WireName
  readonly configuration?: Customization | null
  readonly is_enum?: boolean
  readonly object_relationships: readonly RelationshipEntry[]
  readonly array_relationships: readonly RelationshipEntry[]
  readonly computed_fields?: readonly ComputedFieldEntry[]
  readonly insert_permissions: Permissions
  readonly select_permissions: Permissions
  readonly update_permissions: Permissions
  readonly delete_permissions: Permissions
}
export interface FunctionEntry {
  readonly function: WireName
  readonly configuration: JsonObject | null
  readonly comment: string | null
  readonly permissions: Permissions
}
/** What `export_metadata` returns. */
interface Metadata {
  readonly tables: readonly TableEntry[]
  readonly functions?: readonly FunctionEntry[]
  readonly query_templates: readonly Named[]
}

/** What `track_all` would do. */
export interface Preview {
  readonly tables: readonly WireName[]
  readonly relationships: readonly Suggestion[]
  readonly functions: readonly WireName[]
  readonly left_out: readonly Reason[]
  readonly remove: readonly Reason[]
}
export interface Suggestion {
  readonly table: WireName
  readonly name: string
  readonly type: 'object' | 'array'
  readonly to: WireName
  readonly using: Json
}
export interface Reason {
  readonly name: string
  readonly reason: string
}

interface Structure {
  /** What an admin may see. */
  readonly catalog: Catalog
  readonly metadata: Metadata
  /** Reads everything again, after changes. */
  readonly reload: () => Promise<void>
}

/** The panel is for administration, so it asks as the one who signed in, whomever an admin acts as. */
export const asAdmin = <T = Json>(type: string, args: unknown, asking: Asking = {}): Promise<T> =>
  query<T>(type, args, { ...asking, as: null })

const Context = createContext<Structure | undefined>(undefined)
export const StructureProvider = Context.Provider

export function useStructure(): Structure {
  const found = useContext(Context)
  if (!found) throw new Error('there is no structure above this component')
  return found
}

/** Reads the structure for the panel, and again after trouble. */
export function useReadStructure(): { readonly structure: Structure | undefined; readonly failure: unknown } {
  const [found, setFound] = useState<Pick<Structure, 'catalog' | 'metadata'>>()
  const [failure, setFailure] = useState<unknown>()
  const read = useCallback(async (signal?: AbortSignal) => {
    try {
      const [catalog, metadata] = await Promise.all([
        asAdmin<Catalog>('describe', {}, { signal }),
        asAdmin<Metadata>('export_metadata', {}, { signal }),
      ])
      if (signal?.aborted) return
      setFound({ catalog, metadata })
      setFailure(undefined)
    } catch (error) {
      if (!signal?.aborted) setFailure(error)
    }
  }, [])
  useEffect(() => {
    const reading = new AbortController()
    void read(reading.signal)
    return () => reading.abort()
  }, [read, recovered.value])
  const reload = useCallback(async () => {
    await Promise.all([read(), readCatalog().catch(() => {})])
  }, [read])
  return { structure: found && { ...found, reload }, failure }
}

/** Reads an answer of the server, and again when `key` changes and after trouble. */
export function useAnswer<T>(ask: (signal: AbortSignal) => Promise<T>, key: unknown) {
  const [answer, setAnswer] = useState<T>()
  const [failure, setFailure] = useState<unknown>()
  useEffect(() => {
    const reading = new AbortController()
    setFailure(undefined)
    ask(reading.signal).then(
      (found) => !reading.signal.aborted && setAnswer(found),
      (error: unknown) => !reading.signal.aborted && setFailure(error),
    )
    return () => reading.abort()
  }, [key, recovered.value])
  return { answer, failure }
}

/** Runs changes one at a time, reads the structure again after each, and keeps why the last one failed. */
export function useChange() {
  const { reload } = useStructure()
  const [isBusy, setBusy] = useState(false)
  const [failure, setFailure] = useState<unknown>()
  /** @returns whether it succeeded */
  const run = async (change: () => Promise<unknown>): Promise<boolean> => {
    setBusy(true)
    setFailure(undefined)
    try {
      await change()
      await reload()
      return true
    } catch (error) {
      setFailure(error)
      return false
    } finally {
      setBusy(false)
    }
  }
  return { run, isBusy, failure, clear: () => setFailure(undefined) }
}

export const refOf = (name: WireName): TableName => (typeof name === 'string' ? { schema: 'public', name } : name)

/** Returns the other table of a relationship, and the pairs of columns that join the rows, if its definition is known. */
export const joinOf = (columns: Readonly<Record<string, string>> | undefined): string =>
  Object.entries(columns ?? {})
    .map(([own, other]) => `${own} = ${other}`)
    .join(', ')

export const addressOf = (label: string): string => `/console/structure/table/${encodeURIComponent(label)}`
export const rowsAddressOf = (label: string): string => `/console/data/${encodeURIComponent(label)}`

/** Returns a name that a user typed: `orders`, `schema.orders`, or with quotes as in SQL: `"a.b"`. */
export function nameFrom(text: string): WireName {
  const [, first = '', second] = /^("(?:[^"]|"")*"|[^.]*)(?:\.(.*))?$/s.exec(text.trim()) ?? [undefined, text]
  return second === undefined ? unquote(first) : { schema: unquote(first), name: unquote(second) }
}

const unquote = (name: string): string => (/^".*"$/s.test(name) ? name.slice(1, -1).replaceAll('""', '"') : name)

/** Returns a name for a field that `nameFrom` reads. */
export const typed = (label: string): string =>
  /^[\w$]+(\.|$)/.test(label) ? label : `"${label.replaceAll('"', '""')}"`
