import pg from 'pg'
import { messageOf } from '../errors.js'
import { CONNECT_MS } from './breaker.js'
import { type Hosts, hostUrls, parseHosts } from './host-urls.js'

/** Returns the host and port of a connection URL, for messages; of the first one, if it has several. */
export function hostOf(url: string): string {
  // The driver would read the files of certificates, which may not be there.
  const connectionString = hostUrls(url)[0].replaceAll(/([?&])ssl\w*=[^&]*/g, '$1')
  const { host, port } = new pg.Client({ connectionString })
  return host.startsWith('/') ? host : `${host}:${port}`
}

/** Returns the settings for `pg.Client`, or for `pg.Pool`, whose `Client` connects to the right one of several hosts. */
export function connectionTo(url: string | undefined): { connectionString?: string; Client: typeof pg.Client } {
  const hosts = url === undefined ? undefined : parseHosts(url)
  if (!hosts || (hosts.urls.length === 1 && hosts.wanted === 'any')) return { connectionString: url, Client: pg.Client }
  return { connectionString: hosts.urls[0], Client: clientOf(hosts) }
}

/** Creates a connection, which the caller opens. */
export function createClient(url: string | undefined, config: pg.ClientConfig): pg.Client {
  const { connectionString, Client } = connectionTo(url)
  return new Client({ ...config, connectionString })
}

/** Returns a class of connections to the host that the session attributes fit. The choice holds until one fails. */
function clientOf({ urls, wanted }: Hosts): typeof pg.Client {
  let chosen: Promise<Place> | undefined

  const find = (attributes: string): Promise<Place> =>
    Promise.any(
      urls.map(async (connectionString) => {
        const client = new pg.Client({
          connectionString,
          connectionTimeoutMillis: CONNECT_MS,
          query_timeout: CONNECT_MS,
          application_name: 'rowhouse probe',
        })
        client.on('error', () => undefined)
        try {
          await client.connect()
          await mustFit(client, attributes)
          return { host: client.host, port: client.port }
        } finally {
          client.end().catch(() => undefined)
        }
      }),
    ).catch(({ errors }: AggregateError) => {
      const { code } = errors[0] as { readonly code?: string }
      throw Object.assign(new Error(errors.map(messageOf).join('; ')), { code })
    })
  const choose = async (): Promise<Place> =>
    wanted === 'prefer-standby' ? find('standby').catch(() => find('any')) : find(wanted)

  return class extends pg.Client {
    override connect(): Promise<pg.Client>
    override connect(callback: (error: Error) => void): void
    override connect(callback?: (error: Error) => void): Promise<pg.Client> | void {
      const connecting = this.open()
      if (!callback) return connecting
      void connecting
        .then(() => setImmediate(callback as () => void))
        .catch((error) => setImmediate(callback, error as Error))
    }

    private async open(): Promise<pg.Client> {
      // A pool listens only once it has the connection, which may fail while its role is checked.
      this.on('error', () => undefined)
      try {
        Object.assign(this, await (chosen ??= choose()))
        await super.connect()
        if (wanted !== 'prefer-standby') await mustFit(this, wanted)
        return this
      } catch (error) {
        chosen = undefined
        super.end().catch(() => undefined)
        throw error
      }
    }
  }
}

interface Place {
  readonly host: string
  readonly port: number
}

const STATE = `select pg_catalog.pg_is_in_recovery() as standby, pg_catalog.current_setting('transaction_read_only') = 'on' as frozen`

/** @throws Error with a code like those of connections, because another attempt may find another host */
async function mustFit(client: pg.Client, wanted: string): Promise<void> {
  if (wanted === 'any') return
  // pg supports `query_timeout` although its types do not.
  const asked = { text: STATE, query_timeout: CONNECT_MS } as pg.QueryConfig
  const { rows } = await client.query<{ standby: boolean; frozen: boolean }>(asked)
  const { standby, frozen } = rows[0]!
  const fits = { 'read-write': !frozen, 'read-only': frozen, primary: !standby, standby }[wanted]
  if (!fits) throw Object.assign(new Error(`no host is ${wanted} (target_session_attrs)`), { code: 'ECONNREFUSED' })
}
