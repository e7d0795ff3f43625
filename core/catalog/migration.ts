/** A migration, run once in a transaction. */
export interface Migration {
  /** e.g. `001-init`; unique within its plugin. */
  readonly id: string
  readonly sql: string
}
