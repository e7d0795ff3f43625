import { type Host, staticPage } from 'rowhouse'

const ASSETS = '/v1/openapi/assets'
const part = (name: string): URL => new URL(`./assets/${name}`, import.meta.url)

const HTML = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Query templates - Rowhouse</title>
<link rel="stylesheet" href="${ASSETS}/swagger-ui.css">
<link rel="stylesheet" href="${ASSETS}/page.css">
</head>
<body>
<form id="credentials">
<label>Admin secret <input name="secret" type="password" autocomplete="off"></label>
<label>or token <input name="token" type="password" autocomplete="off"></label>
<label>Role <input name="role" autocomplete="off"></label>
<label>User id <input name="user" autocomplete="off" size="6"></label>
<button>Show templates</button>
</form>
<div id="page"></div>
<script src="${ASSETS}/swagger-ui.js"></script>
<script src="${ASSETS}/page.js"></script>
</body>
</html>
`

const STYLE = `body { margin: 0; background: #fafafa }
#credentials { display: flex; flex-wrap: wrap; gap: .5rem 1rem; padding: .75rem 1.25rem; background: #fff; border-bottom: 1px solid #ddd; font: .9rem system-ui, sans-serif }
#credentials input { font: inherit; padding: .25rem .4rem; border: 1px solid #999; border-radius: .25rem }
#credentials button { font: inherit; padding: .25rem .8rem }
`

const SCRIPT = `const form = document.getElementById('credentials')
const url = location.pathname + '.json'
function credentials(headers) {
  const { secret, token, role, user } = Object.fromEntries(new FormData(form))
  if (secret) headers['X-Service-Admin-Secret'] = secret
  if (token) headers['Authorization'] = 'Bearer ' + token
  if (role) headers['X-Service-Role'] = role
  if (user) headers['X-Service-User-Id'] = user
  return headers
}
function show() {
  SwaggerUIBundle({
    url,
    dom_id: '#page',
    validatorUrl: null,
    requestInterceptor(request) {
      credentials(request.headers)
      return request
    },
  })
}
form.addEventListener('submit', (event) => {
  event.preventDefault()
  show()
})
show()
`

/** Serves Swagger UI for the templates. */
export function openApiPage(router: Host['router']): void {
  const page = staticPage(router, {
    html: HTML,
    assets: ASSETS,
    files: {
      'swagger-ui.css': part('swagger-ui.css'),
      'swagger-ui.js': part('swagger-ui-bundle.js'),
      'page.css': STYLE,
      'page.js': SCRIPT,
    },
  })
  router.get('/v1/openapi', page)
}
