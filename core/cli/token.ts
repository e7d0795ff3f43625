import { messageOf } from '../errors.js'
import type { JwtConfig } from '../http/config.js'
import { createTokenReader } from '../http/jwt.js'
import { fixedKey } from '../http/jwt-key.js'
import { pointerKeys } from '../json/json-pointer.js'
import { USER_ID } from '../session.js'
import { type Invocation, sessionVariable } from './invocation.js'
import { readSections } from './read-sections.js'

const DEFAULT_MINUTES = 60

/** Prints a token that the configured server accepts, signed with a shared key of the configuration. */
export async function token(invocation: Invocation): Promise<number> {
  const { flags, lists, print } = invocation
  const { role, user, issuer } = flags
  const minutes = Number(flags['minutes'] ?? DEFAULT_MINUTES)
  if (typeof role !== 'string') throw new Error('expected --role; see rowhouse token --help')
  if (!(minutes > 0)) throw new Error('expected --minutes to be a positive number')
  const { jwt = [], hasuraNames } = (await readSections(invocation)).values.auth
  const config = issuerIn(jwt, issuer)
  const given = (lists['session'] ?? []).map((each) => sessionVariable(each))
  const variables = new Map(given.map(([name, value]) => [name.toLowerCase(), value]))
  if (typeof user === 'string') variables.set(USER_ID, user)
  const signed = await sign(config, role, variables, Math.floor(Date.now() / 1000), minutes)
  await mustBeAccepted(signed, config, hasuraNames)
  print(signed)
  return 0
}

/** Returns the issuer with a shared key. @param name its `issuer`, if there are several */
function issuerIn(all: readonly JwtConfig[], name: Invocation['flags'][string]): JwtConfig {
  const shared = all.filter(({ algorithms }) => algorithms[0]?.startsWith('HS'))
  const [first, ...others] = name === undefined ? shared : shared.filter(({ issuer }) => issuer === name)
  if (!first) {
    const which = name === undefined ? '' : ` with the issuer "${String(name)}"`
    throw new Error(`auth.jwt has no shared key (HS256, HS384 or HS512)${which}: only the issuer signs its tokens`)
  }
  if (others.length > 0) {
    const issuers = shared.flatMap(({ issuer }) => issuer ?? []).join(', ')
    throw new Error(`auth.jwt has several shared keys: choose one with --issuer (${issuers})`)
  }
  return first
}

async function sign(
  { algorithms, key, issuer, audience, claims }: JwtConfig,
  role: string,
  variables: ReadonlyMap<string, string>,
  now: number,
  minutes: number,
): Promise<string> {
  const { SignJWT } = await import('jose')
  const [alg = 'HS256'] = algorithms
  const { namespace, namespacePath, format, allowedRoles, defaultRole } = claims
  const payload: Record<string, unknown> = {}
  const own: Record<string, unknown> = {}
  if (allowedRoles === undefined) own['x-service-allowed-roles'] = [role]
  if (defaultRole === undefined) own['x-service-default-role'] = role
  const pointers = new Map(Object.entries(claims.variables).map(([name, pointer]) => [name.toLowerCase(), pointer]))
  for (const [name, value] of variables) if (!pointers.has(name)) own[name] = value
  const content = format === 'json' ? own : JSON.stringify(own)
  if (namespacePath === undefined) payload[namespace] = content
  else if (namespacePath === '') Object.assign(payload, own)
  else setAtPointer(payload, namespacePath, content)
  if (allowedRoles !== undefined) setAtPointer(payload, allowedRoles, [role])
  if (defaultRole !== undefined) setAtPointer(payload, defaultRole, role)
  for (const [name, pointer] of pointers) {
    const value = variables.get(name)
    if (value !== undefined) setAtPointer(payload, pointer, value)
  }
  const jwt = new SignJWT(payload)
    .setProtectedHeader({ alg })
    .setIssuedAt(now)
    .setExpirationTime(now + Math.ceil(minutes * 60))
  if (issuer !== undefined) jwt.setIssuer(issuer)
  if (audience !== undefined) jwt.setAudience(audience)
  return jwt.sign(fixedKey({ algorithms, key }))
}

/** Sets the value that a JSON pointer refers to, with the objects on the way. */
function setAtPointer(root: Record<string, unknown>, pointer: string, value: unknown): void {
  const keys = pointerKeys(pointer)
  const last = keys.at(-1) ?? ''
  let object = root
  for (const key of keys.slice(0, -1)) object = (object[key] ??= {}) as Record<string, unknown>
  object[last] = value
}

/** @throws Error: the server would refuse the token, for example because of the name of the role */
async function mustBeAccepted(signed: string, config: JwtConfig, hasura: boolean): Promise<void> {
  const header = config.header?.toLowerCase()
  const headers = new Map([header === undefined ? ['authorization', `Bearer ${signed}`] : [header, signed]])
  const read = createTokenReader([config], { warn() {} }, hasura)
  try {
    await read({
      get: (name) => headers.get(name),
      cookie: () => undefined,
      service: new Map(),
      underscored: undefined,
    })
  } catch (error) {
    const { cause = error } = error as Error
    throw new Error(`the server would refuse this token: ${messageOf(cause)}`, { cause: error })
  }
}
