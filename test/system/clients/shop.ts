import type { Test } from 'tap'
import { rowsOf } from '../../kit/database.js'
import { ADMIN_SECRET, testServer } from '../../kit/server.js'

export type Row = Readonly<Record<string, unknown>>
export type Role = 'admin' | 'staff' | 'customer' | 'anonymous'

/** The customer whom the role `customer` stands for. */
export const BUYER = 786

/** The sample shop for clients that were made for Hasura. */
export interface Shop {
  readonly url: string
  readonly databaseUrl: string
  headers(role: Role): Record<string, string>
  /** The rows of a select as PostgreSQL writes them as JSON. */
  rows(sql: string): Promise<readonly Row[]>
  /** The only column of the only row of a select. */
  // oxlint-disable-next-line typescript/no-explicit-any
  value(sql: string): Promise<any>
}

const plugin = (name: string) => new URL(`../../../plugins/${name}/index.js`, import.meta.url)

/** @param databaseUrl of a shop that is there already */
export async function shop(t: Test, graphql: object = {}, databaseUrl?: string): Promise<Shop> {
  const server = await testServer(t, {
    databaseUrl,
    builtins: { sample: plugin('sample'), live: plugin('live') },
    config: { auth: { hasuraNames: true }, plugins: { graphql } },
  })
  const rows = async (sql: string) => {
    const found = await rowsOf<{ row: Row }>(server.databaseUrl, `select to_json(t) as row from (${sql}) t`)
    return found.map(({ row }) => row)
  }
  return {
    url: `${server.url}/v1/graphql`,
    databaseUrl: server.databaseUrl,
    headers: (role) => ({
      'x-hasura-admin-secret': ADMIN_SECRET,
      ...(role === 'admin' ? {} : { 'x-hasura-role': role }),
      ...(role === 'customer' ? { 'x-hasura-user-id': String(BUYER) } : {}),
    }),
    rows,
    value: async (sql) => Object.values((await rows(sql))[0] ?? {})[0],
  }
}
