import { SignJWT } from 'jose'
import { USER_ID } from '../data.js'
import type { LoadScenario } from '../scenarios/scenario.js'
import type { Size } from '../data.js'
import type { Post } from './child.js'
import { TOKEN_ROLE } from './peer.js'

/** A server that is no package of npm: somebody runs it, and the bench asks it by its URL. */
export interface Product {
  readonly title: string
  /** Variables of the environment, by the names that the product itself has for them. */
  readonly needs: readonly string[]
  /** It brings a PostgreSQL of its own. */
  readonly ownDatabase?: true
  /** Where it says its version. */
  readonly versionPath: string
  version(answer: Response): Promise<string | null>
  /** The role `user` of the other systems. @param env has what it needs */
  headers(env: Readonly<Record<string, string>>): Promise<Readonly<Record<string, string>>>
  /** The n-th request. */
  read(scenario: LoadScenario, n: number, size: Size): Omit<Post, 'headers'>
  /** The rows in its answer as those of the others, as JSON text. */
  rows(answer: string): string
}

export type ProductName = 'hasura' | 'postgrest' | 'supabase'

/** The admin secret vouches for a role, as a gateway does for ours. */
const hasura: Product = {
  title: 'Hasura',
  needs: ['HASURA_GRAPHQL_ADMIN_SECRET'],
  versionPath: '/v1/version',
  version: async (answer) => ((await answer.json()) as { version: string }).version,
  headers: async (env) => ({
    'content-type': 'application/json',
    'x-hasura-admin-secret': env['HASURA_GRAPHQL_ADMIN_SECRET'] ?? '',
    'x-hasura-role': 'user',
    'x-hasura-user-id': String(USER_ID),
  }),
  read: (scenario, n, size) => ({
    path: '/v1/graphql',
    body: JSON.stringify((scenario.hasura ?? scenario.graphql)(n, size)),
  }),
  rows(answer) {
    const { data } = JSON.parse(answer, inUtc) as { data?: { root: unknown } }
    if (data === undefined) throw new Error(answer.slice(0, 300))
    return JSON.stringify(Array.isArray(data.root) ? data.root : [data.root])
  },
}

const postgrest: Product = {
  title: 'PostgREST',
  needs: ['PGRST_JWT_SECRET'],
  versionPath: '/',
  version: async (answer) => /^postgrest\/(\S+)/.exec(answer.headers.get('server') ?? '')?.[1] ?? null,
  headers: (env) => byToken(env['PGRST_JWT_SECRET'] ?? ''),
  read: (scenario, n, size) => ({ method: 'GET', path: scenario.postgrest(n, size), body: '' }),
  rows: (answer) => JSON.stringify(JSON.parse(answer, inUtc)),
}

/** PostgREST behind a gateway that wants a key. */
const supabase: Product = {
  ...postgrest,
  title: 'Supabase',
  needs: ['JWT_SECRET', 'ANON_KEY'],
  ownDatabase: true,
  versionPath: '/rest/v1/',
  headers: async (env) => ({ ...(await byToken(env['JWT_SECRET'] ?? '')), apikey: env['ANON_KEY'] ?? '' }),
  read(scenario, n, size) {
    const request = postgrest.read(scenario, n, size)
    return { ...request, path: `/rest/v1${request.path}` }
  },
}

export const PRODUCTS: Readonly<Record<ProductName, Product>> = { hasura, postgrest, supabase }

/** A signed token (HS256) for the role with policies. */
async function byToken(secret: string): Promise<Readonly<Record<string, string>>> {
  const token = await new SignJWT({ role: TOKEN_ROLE })
    .setProtectedHeader({ alg: 'HS256' })
    .setSubject(String(USER_ID))
    .setExpirationTime('1d')
    .sign(Buffer.from(secret))
  return { authorization: `Bearer ${token}` }
}

/** Times are of the zone of PostgreSQL; they are whole seconds. */
const inUtc = (name: string, value: unknown): unknown =>
  name === 'created_at' ? new Date(String(value)).toISOString().replace('.000Z', '+00:00') : value
