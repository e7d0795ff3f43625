import { createHash, randomBytes } from 'node:crypto'
import { type Credentials, type Data, type Session, USER_ID } from 'rowhouse'

/** Signed-in browsers. They are stored in the database, so all of its servers know them, and a sign-out takes effect immediately. */
export class Sessions {
  readonly #data: Data
  readonly #maxMs: number

  constructor(data: Data, maxMs: number) {
    this.#data = data
    this.#maxMs = maxMs
  }

  /**
   * Returns who is signed in. Pages of other origins are not, not even of those in `http.cors.origins`: the session may
   * do more than they were trusted with.
   * @throws ServiceError 503 while the database is unavailable, but not for the parts of a page: without data they are
   *   the same for everybody, and the page itself says what is wrong
   */
  find(credentials: Credentials): Promise<Session | null> | null {
    const id = credentials.header('cookie') && idIn(credentials.header('host'), credentials.cookie)
    return !id || !isOwnPage((name) => credentials.header(name)) ? null : this.#read(id, credentials)
  }

  async #read(id: string, credentials: Credentials): Promise<Session | null> {
    try {
      const [found] = await this.#data.query<Row>(
        `select ${COLUMNS} from svc_catalog.svc_console_session where id_hash = $1 and expires_at > pg_catalog.now()`,
        [hashOf('session', id)],
      )
      return found ? sessionOf(found, id) : null
    } catch (error) {
      if (PARTS_OF_PAGES.has(credentials.header('sec-fetch-dest') ?? '')) return null
      throw error
    }
  }

  /**
   * Signs a browser in.
   * @param expiresAt when the caller's credentials expire, in milliseconds since 1970
   */
  create(session: Caller, expiresAt = Infinity): Promise<Created> {
    return this.#create('session', session, Math.min(this.#maxMs, expiresAt - Date.now()))
  }

  /** Creates the code of a sign-in link. */
  createCode(session: Caller): Promise<Created> {
    return this.#create('code', session, CODE_MS)
  }

  /** Returns who signs in with a code, which is then used up; null for any other text. */
  async redeem(code: string): Promise<Session | null> {
    const [found] = await this.#data.query<Row>(
      `delete from svc_catalog.svc_console_session where id_hash = $1 and expires_at > pg_catalog.now() returning ${COLUMNS}`,
      [hashOf('code', code)],
    )
    return found ? sessionOf(found, code) : null
  }

  /** Signs the browser with this id out. */
  async end(id: string): Promise<void> {
    await this.#data.query('delete from svc_catalog.svc_console_session where id_hash = $1', [hashOf('session', id)])
  }

  /** Signs a user out of all browsers, in all roles that the caller holds. */
  async endAllOf({ role, roles = [role], variables }: Caller): Promise<void> {
    await this.#data.query(`delete from svc_catalog.svc_console_session where ${OF_USER}`, [
      variables.get(USER_ID) ?? null,
      roles,
    ])
  }

  /** Signs all browsers out, and invalidates all sign-in links. */
  async endAll(): Promise<void> {
    await this.#data.query('delete from svc_catalog.svc_console_session')
  }

  async #create(purpose: Purpose, { role, roles, variables, secretKey }: Caller, ms: number): Promise<Created> {
    const id = randomBytes(32).toString('base64url')
    const seconds = Math.floor(ms / 1000)
    await this.#data.query(
      `with ended as (
         delete from svc_catalog.svc_console_session where expires_at < pg_catalog.now() or id_hash in (
           select id_hash from svc_catalog.svc_console_session
           where ${COUNTED} and expires_at > pg_catalog.now() order by created_at desc, id_hash offset ${MAX_SESSIONS - 1}
         )
       )
       insert into svc_catalog.svc_console_session (id_hash, role, roles, variables, secret_key, expires_at)
       values ($3, $4, $5, $6, $7, pg_catalog.now() + $8 * interval '1 second')`,
      [
        variables.get(USER_ID) ?? null,
        [role],
        hashOf(purpose, id),
        role,
        roles,
        JSON.stringify(Object.fromEntries(variables)),
        secretKey === undefined ? null : masked(Buffer.from(secretKey, 'base64url'), id),
        seconds,
      ],
    )
    return { id, seconds }
  }
}

/** Time in which a sign-in link must be used. */
const CODE_MS = 3_600_000

/** Live sessions and unused sign-in links of one user. One more ends the oldest. */
const MAX_SESSIONS = 100

/** What browsers load a page and its scripts for, in `Sec-Fetch-Dest`. */
const PARTS_OF_PAGES: ReadonlySet<string> = new Set(['document', 'iframe', 'script', 'style'])

const COLUMNS = 'role, roles, variables, secret_key'
/** The sessions of the user `$1` in the roles `$2`. */
const OF_USER = `variables ->> '${USER_ID}' is not distinct from $1 and role = any ($2)`

/** All sessions of the user `$1`; without a user id, those in the roles `$2`. */
const COUNTED = `variables ->> '${USER_ID}' is not distinct from $1 and ($1::text is not null or role = any ($2))`

type Caller = Pick<Session, 'role' | 'roles' | 'variables' | 'secretKey'>
type Purpose = 'session' | 'code' | 'mask'
export interface Created {
  /** The secret id of the browser, or the code. */
  readonly id: string
  readonly seconds: number
}
interface Row {
  readonly role: string
  readonly roles: readonly string[] | null
  readonly variables: Readonly<Record<string, string>>
  readonly secret_key: Buffer | null
}

const sessionOf = ({ role, roles, variables, secret_key: key }: Row, id: string): Session => ({
  role,
  roles: roles ?? undefined,
  variables: new Map(Object.entries(variables)),
  secretKey: key ? masked(key, id).toString('base64url') : undefined,
  via: 'cookie',
})

/** Hides a key from readers of the database, who could guess a weak secret by it, or shows it again. */
function masked(key: Buffer, id: string): Buffer {
  const mask = hashOf('mask', id)
  return key.map((byte, i) => byte ^ mask[i]!) as Buffer
}

/** No cookie contains a NUL, so a code is never valid as one. */
const hashOf = (purpose: Purpose, id: string): Buffer => createHash('sha256').update(`${purpose}\0${id}`).digest()

/** Returns whether a request may come from a page of this server, or from a program that is no browser. */
export function isOwnPage(header: (name: string) => string | undefined): boolean {
  const site = header('sec-fetch-site')
  if (site) return site === 'same-origin' || site === 'none'
  const origin = header('origin')
  return !origin || (URL.canParse(origin) && new URL(origin).host === header('host'))
}

/** Returns the id of the browser. Only a page over HTTPS of this very host can set the cookie with the prefix. */
export const idIn = (host: string | undefined, cookie: Credentials['cookie']): string | undefined =>
  cookie(SECURE + cookieName(host)) ?? cookie(cookieName(host))

/** Prefix of the cookie over HTTPS (RFC 6265bis 4.1.3.2). */
export const SECURE = '__Host-'

/**
 * Returns the name of the cookie. It contains the port, because browsers send the cookies of a host to all of its ports,
 * and several servers may run on one machine.
 */
export const cookieName = (host: string | undefined): string => {
  const port = /:(\d+)$/.exec(host ?? '')?.[1]
  return port === undefined ? 'rowhouse' : `rowhouse-${port}`
}
