import { type Data, INTERNAL, ServiceError } from 'rowhouse'
import type { Json, TableRef } from 'rowhouse/plan'
import { readTriggers, type Trigger } from './definition.js'

/** A trigger of the metadata, and its table. */
export interface Known {
  readonly name: string
  readonly table: TableRef
  readonly trigger: Trigger
}

/** The triggers, as the metadata has them. */
export class Triggers {
  private known: readonly Known[] = []
  private catalog: Data['catalog'] | undefined

  constructor(private readonly data: Data) {}

  /** Returns all triggers. @param isFresh reads them again, even if nothing is known to have changed */
  async all(isFresh = false): Promise<readonly Known[]> {
    const { catalog } = this.data
    if (catalog === this.catalog && !isFresh) return this.known
    const hasAny = [...catalog.tables.values()].some(({ captures }) => captures?.includes('events'))
    this.known = hasAny || isFresh ? await this.read() : []
    this.catalog = catalog
    return this.known
  }

  /** Returns a trigger of a table; undefined when the metadata has none, not even by now. */
  async find(name: string, { schema, name: table }: TableRef): Promise<Known | undefined> {
    const isIt = (each: Known) => each.name === name && each.table.schema === schema && each.table.name === table
    return (await this.all()).find(isIt) ?? (await this.all(true)).find(isIt)
  }

  private async read(): Promise<readonly Known[]> {
    const { tables } = await this.data.metadata({
      session: INTERNAL,
      signal: new AbortController().signal,
      format: 'json',
    })
    return [...tables.values()].flatMap(({ ref, captures }) => triggersIn(ref, captures['events']))
  }
}

/** Returns the triggers in the definition of a table. */
export function triggersIn(table: TableRef, definition: Json | undefined): Known[] {
  if (definition === undefined) return []
  try {
    return [...readTriggers(definition)].map(([name, trigger]) => ({ name, table, trigger }))
  } catch (error) {
    // The metadata is inconsistent then, and says so.
    if (error instanceof ServiceError) return []
    throw error
  }
}
