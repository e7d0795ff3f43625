import pg from 'pg'
import { messageOf } from '../errors.js'
import type { DatabaseConfig } from './config.js'
import { isConnectionError } from './sqlstates.js'

/** Says which setting leads to no connection, why, and what to do about it. */
export class Unreachable extends Error {
  override readonly name = 'Unreachable'
  /** Says why, and what to do. */
  readonly reason: string
  /** What to do, if that is known. */
  readonly hint: string | undefined

  /** @param setting path of the connection URL, such as `database.url` */
  constructor(
    readonly setting: string,
    url: string,
    cause: unknown,
  ) {
    const hint = hintFor(cause, url)
    const reason = `${messageOf(cause)}${hint === undefined ? '' : `: ${hint}`}`
    const place = setting === 'database.url' ? 'database.url (DATABASE_URL)' : setting
    super(`the database of ${place} cannot be reached: ${reason}`, { cause })
    this.reason = reason
    this.hint = hint
  }
}

/** What an error can be known by. */
interface Known {
  /** SQLSTATE, or a code of Node or of OpenSSL. */
  readonly code: string
  readonly message: string
}
type Hint = readonly [fits: RegExp | ((error: Known) => boolean), what: string]

const says =
  (code: RegExp, message: RegExp) =>
  (error: Known): boolean =>
    code.test(error.code) && message.test(error.message)

const AUTHORITY = 'name the certificate of the authority that signed the server with sslrootcert in the URL'
const LOGIN = 'check the user and the password of the URL; special characters are percent-encoded'

/** By code, or by code and message where one code has several reasons. The first that fits says it. */
const HINTS: readonly Hint[] = [
  [
    says(/./, /unsupported startup parameter/),
    'this is a connection pooler: set database.directUrl to the address of PostgreSQL itself, and database.url to the pooler',
  ],
  [says(/^28000$/, /pg_hba\.conf.*no encryption/), 'add sslmode=verify-full to the URL, or a line to pg_hba.conf'],
  [says(/^28000$/, /pg_hba\.conf/), 'add a line for this host, user and database to pg_hba.conf'],
  [says(/^28/, /./), LOGIN],
  [says(/^$/, /^SASL: .*password must be a/), 'the URL has no password, and PostgreSQL asks for one'],
  [/^3D000$/, 'create the database, or correct its name at the end of the URL'],
  [says(/^42501$/, /for database/), 'the login needs the right: grant connect on database'],
  [/^53300$/, 'PostgreSQL has no connection left: see max_connections, and the limits of the login and the database'],
  [/^55000$/, 'alter database ... allow_connections true'],
  [/^57P/, 'wait until PostgreSQL has started'],
  [/^(ENOTFOUND|EAI_AGAIN)$/, 'the name of the host is unknown here: check its spelling, and DNS'],
  [
    says(/^(ECONNREFUSED|ENOENT)$/, /^connect |^$/),
    'nothing listens there: check the host and the port, and that PostgreSQL runs',
  ],
  [
    says(/^(ETIMEDOUT|EHOSTUNREACH|ENETUNREACH)$/, /./),
    'nothing answers there: check the host and the port, and firewalls',
  ],
  [says(/^$/, /timeout/i), 'nothing answers there in time: check the host and the port, and firewalls'],
  [/^(ERR_TLS_CERT_ALTNAME_INVALID)$/, 'connect to a name that the certificate of the server is for'],
  [/^CERT_(HAS_EXPIRED|NOT_YET_VALID)$/, 'renew the certificate of the server, or check the clocks'],
  [/^(UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|CERT_|INVALID_CA)/, AUTHORITY],
  [/^ERR_OSSL_/, 'check that sslrootcert, sslcert and sslkey of the URL are certificates and keys in PEM format'],
  [
    says(/./, /alert (number|unknown|certificate|handshake)|handshake failure|wrong version number/),
    'the server refused TLS: check sslmode, sslcert and sslkey of the URL',
  ],
  [says(/^$/, /does not support SSL/), 'switch on ssl in PostgreSQL, or leave out sslmode if the network is your own'],
  [
    says(/^(ECONNRESET|EPIPE|)$/, /ECONNRESET|EPIPE|Connection terminated|SSL connection|socket disconnected/),
    'the other side closed the connection: check that PostgreSQL listens at this port, and sslmode',
  ],
]

/** Parameters of a connection URL that name files. */
const FILES = ['sslrootcert', 'sslcert', 'sslkey']

/** Returns what to do about a failed connection. */
function hintFor(error: unknown, url: string): string | undefined {
  if (!(error instanceof Error)) return undefined
  const { code = '', syscall, path } = error as NodeJS.ErrnoException
  if (path !== undefined && syscall !== 'connect') {
    const query = new URLSearchParams(url.split('?')[1])
    const parameter = FILES.find((name) => query.get(name) === path) ?? FILES.join(', ')
    return `${parameter} of the URL must name a file that this user may read`
  }
  const known = { code, message: error.message }
  return HINTS.find(([fits]) => (typeof fits === 'function' ? fits(known) : fits.test(code)))?.[1]
}

/** Returns an error as that of the direct connection to PostgreSQL, if it is one, and otherwise as it is. */
export function directProblem({ url, directUrl }: Pick<DatabaseConfig, 'url' | 'directUrl'>, error: unknown): unknown {
  return problemOf(error, directUrl === undefined ? 'database.url' : 'database.directUrl', directUrl ?? url ?? '')
}

/** The same for the connection of any setting. */
function problemOf(error: unknown, setting: string, url: string): unknown {
  if (error instanceof Unreachable) return error
  const isIt =
    error instanceof pg.DatabaseError
      ? OF_LOGIN.test(error.code ?? '')
      : (hintFor(error, url) ?? isConnectionError(error))
  return isIt ? new Unreachable(setting, url, error) : error
}
const OF_LOGIN = /^(08|28|3D|53300|57P)/
