import type { Data } from 'rowhouse'

/** The suppression list: addresses that get no mail. */
export class Suppression {
  constructor(private readonly data: Data) {}

  /** Finds the first of these addresses that is on the list. */
  async find(addresses: readonly string[]): Promise<{ readonly address: string; readonly reason: string } | undefined> {
    const [found] = await this.data.query<{ address: string; reason: string }>(
      'select address, reason from svc_catalog.svc_suppression where address = any($1::text[]) limit 1',
      [addresses.map((address) => address.toLowerCase())],
    )
    return found
  }

  async add(address: string, reason: string): Promise<void> {
    await this.data.query(
      `insert into svc_catalog.svc_suppression (address, reason) values (pg_catalog.lower($1), $2) on conflict (address) do nothing`,
      [address, reason],
    )
  }

  /** @returns false when the address was not on the list */
  async remove(address: string): Promise<boolean> {
    const removed = await this.data.query('delete from svc_catalog.svc_suppression where address = $1 returning 1', [
      address.toLowerCase(),
    ])
    return removed.length > 0
  }

  /** Lists addresses that contain `search`, sorted. @param after the last address of the previous page */
  list(after: string, search: string, limit: number): Promise<readonly object[]> {
    return this.data.query(
      `select address, reason, pg_catalog.to_json(created_at) #>> '{}' as created_at from svc_catalog.svc_suppression
       where address > $1 and ($2 = '' or pg_catalog.strpos(address, $2) > 0) order by address limit $3`,
      [after, search.toLowerCase(), limit],
    )
  }
}
