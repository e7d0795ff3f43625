/** @typedef {{ role: string, variables: Record<string, string> }} Caller */

const form = document.getElementById('credentials')
const refusal = document.getElementById('refusal')
const DOCUMENT = `${location.pathname}.json`

void start()

async function start() {
  const caller = await signedIn()
  document.getElementById('known').hidden = !caller || window !== window.top
  form.hidden = caller !== undefined
  if (caller) {
    document.getElementById('caller').textContent = caller.role
    await show((headers) => callAs(caller, headers), { isSignedIn: true })
    return
  }
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    void show(credentials, { isSignedIn: false })
  })
  await show(credentials, { isSignedIn: false })
}

/**
 * Returns the caller of the console's session, if this browser is signed in there.
 * @returns {Promise<Caller | undefined>}
 */
async function signedIn() {
  try {
    const { links } = await (await fetch('/', { headers: { Accept: 'application/json' } })).json()
    if (!links.some(({ href }) => href === '/console')) return undefined
    const { signed_in: isSignedIn, via, role } = await (await fetch('/console/session')).json()
    if (!isSignedIn || via !== 'cookie') return undefined
    return JSON.parse(sessionStorage.getItem('rowhouse-acting') ?? 'null') ?? { role, variables: {} }
  } catch {
    return undefined
  }
}

/** Adds the headers of the caller as whom the console asks. A role that the request names stays. */
function callAs({ role, variables }, headers) {
  const given = { 'X-Service-Role': role, ...variables }
  for (const name in given) if (!headers[name]) headers[name] = given[name]
  return headers
}

/** Adds what the form says. */
function credentials(headers) {
  const { secret, token, role, user } = /** @type {Record<string, string>} */ (Object.fromEntries(new FormData(form)))
  if (secret) headers['X-Service-Admin-Secret'] = secret
  if (token) headers['Authorization'] = `Bearer ${token}`
  if (role) headers['X-Service-Role'] = role
  if (user) headers['X-Service-User-Id'] = user
  return headers
}

/** Reads the document as the caller, and shows it. */
async function show(identify, { isSignedIn }) {
  refusal.textContent = ''
  let response
  try {
    response = await fetch(DOCUMENT, { headers: identify({}) })
  } catch {
    refusal.textContent = 'The server does not answer. Reload this page to try again.'
    return
  }
  const read = await response.json().catch(() => ({}))
  if (!response.ok) {
    const why = /** @type {string} */ (read.error) ?? `the server answered ${response.status}`
    refusal.textContent = `${why[0].toUpperCase()}${why.slice(1)}.`
    return
  }
  SwaggerUIBundle({
    url: DOCUMENT,
    spec: withoutNull(read),
    dom_id: '#page',
    deepLinking: true,
    docExpansion: 'list',
    validatorUrl: null,
    plugins: isSignedIn ? [WITHOUT_AUTHORIZE] : [],
    requestInterceptor(request) {
      identify(request.headers)
      return request
    },
  })
}

const nothing = () => () => null
const WITHOUT_AUTHORIZE = { wrapComponents: { authorizeBtn: nothing, authorizeOperationBtn: nothing } }

/** Removes null from the types of parameters in a URL, which cannot contain it. Swagger UI shows `stringnull` otherwise. */
function withoutNull(document) {
  for (const path of Object.values(document.paths)) {
    for (const { parameters = [] } of Object.values(path)) {
      for (const { schema } of parameters) if (schema) simplify(schema)
    }
  }
  return document
}

function simplify(schema) {
  if (Array.isArray(schema.type)) {
    const types = schema.type.filter((type) => type !== 'null')
    schema.type = types.length === 1 ? types[0] : types
  }
  if (schema.items) simplify(schema.items)
}
