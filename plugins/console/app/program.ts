import { acting, isAdmin } from './session.js'

/** A request that a program can send, too. */
export interface Request {
  readonly method: 'GET' | 'POST'
  /** Path with the query string. */
  readonly path: string
  /** Text of the JSON body, for POST. */
  readonly body?: string
}

/** Returns the headers of a program that calls as the caller. The first one is the credential, with a variable. */
function headers(variable: (name: string) => string): readonly (readonly [string, string])[] {
  const { role, variables = {} } = acting.value ?? {}
  const credential: readonly [string, string] = isAdmin.value
    ? ['X-Service-Admin-Secret', variable('ADMIN_SECRET')]
    : ['Authorization', `Bearer ${variable('TOKEN')}`]
  const others = Object.entries({ ...(role === undefined ? {} : { 'x-service-role': role }), ...variables })
  return [credential, ...others.map(([name, value]) => [capitalized(name), value] as const)]
}

const capitalized = (name: string) => name.replaceAll(/(^|-)[a-z]/g, (first) => first.toUpperCase())
const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`

/** Returns a command for a shell. A variable holds the credential. */
export function curlOf({ path, body }: Request): string {
  const given = headers((name) => `$${name}`).map(
    ([name, value], i) => `-H ${i === 0 ? `"${name}: ${value}"` : quoted(`${name}: ${value}`)}`,
  )
  const more = body === undefined ? [] : ["-H 'Content-Type: application/json'", `-d ${quoted(body)}`]
  const first = `curl -s ${quoted(location.origin + path)}`
  return [first, ...given, ...more].join(' \\\n  ')
}

/** Returns code in JavaScript. A variable holds the credential. */
export function fetchOf({ method, path, body }: Request): string {
  const given = headers((name) => `\${${name}}`).map(([name, value], i) => [
    name,
    i === 0 ? `\`${value}\`` : JSON.stringify(value),
  ])
  const all = body === undefined ? given : [...given, ['Content-Type', JSON.stringify('application/json')]]
  const lines = [
    ...(method === 'GET' ? [] : [`  method: '${method}',`]),
    '  headers: {',
    ...all.map(([name, value]) => `    ${JSON.stringify(name)}: ${value},`),
    '  },',
    ...(body === undefined ? [] : [`  body: JSON.stringify(${body.replaceAll('\n', '\n  ')}),`]),
  ]
  return `const response = await fetch(${JSON.stringify(location.origin + path)}, {\n${lines.join('\n')}\n})\nconst result = await response.json()`
}
