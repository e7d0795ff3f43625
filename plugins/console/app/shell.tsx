import { useEffect, useRef, useState } from 'preact/hooks'
import { ErrorBoundary, Route, Router, useLocation, useRoute } from 'preact-iso'
import { lost, recovered, trouble } from './api.js'
import { catalog, readCatalog } from './catalog.js'
import { ActingControl } from './acting.js'
import { PANELS } from './panels/index.js'
import { acting, callerKey, isAdmin, session, signOut } from './session.js'
import { type Link, readLinks } from './links.js'
import { SignIn } from './sign-in.js'
import { Problem } from './ui/problem.js'

/** The frame of all panels: the sign-in, the menu, and the caller as whom the panels ask. */
export function Shell({ start }: { readonly start: () => Promise<void> }) {
  const [broken, setBroken] = useState<unknown>()
  const isRecovered = recovered.value
  useEffect(() => {
    if (session.peek() !== undefined) return
    start().then(
      () => setBroken(undefined),
      (error: unknown) => {
        setBroken(error)
        lost('The console could not start.')
      },
    )
  }, [start, isRecovered])
  if (broken !== undefined)
    return (
      <main>
        <Trouble />
        <Problem of={broken} />
      </main>
    )
  if (session.value === undefined) return <p class="wait">Loading …</p>
  if (session.value === null) return <SignIn />
  return (
    <>
      <TopBar />
      <Trouble />
      <div class="frame">
        <Menu />
        <main id="main" tabIndex={-1}>
          <Panels key={callerKey.value} />
        </main>
      </div>
    </>
  )
}

function TopBar() {
  return (
    <header class={acting.value ? 'top acting' : 'top'}>
      <a class="brand" href="/console">
        Rowhouse
      </a>
      <ActingControl />
      <SignOut />
    </header>
  )
}

function SignOut() {
  const [refusal, setRefusal] = useState('')
  const run = (where: 'here' | 'everywhere') => {
    signOut(where).catch((error: unknown) => {
      setRefusal(`You are still signed in: ${error instanceof Error ? error.message : String(error)}`)
    })
  }
  return (
    <>
      {refusal !== '' && (
        <span class="bad" role="alert">
          {refusal}
        </span>
      )}
      <button type="button" class="quiet" onClick={() => run('here')}>
        Sign out
      </button>
      <details class="account">
        <summary aria-label="Account">▾</summary>
        <p class="popover">
          <button type="button" onClick={() => run('everywhere')}>
            Sign out everywhere
          </button>
        </p>
      </details>
    </>
  )
}

const Trouble = () =>
  trouble.value === '' ? null : (
    <p class="trouble" role="alert">
      {trouble.value} The console tries again every two seconds.
    </p>
  )

function Menu() {
  const { path } = useLocation()
  const links = useLinks()
  const shown = PANELS.filter(({ adminOnly }) => !adminOnly || isAdmin.value)
  const menu = useRef<HTMLElement>(null)
  // In a narrow window the menu scrolls.
  useEffect(() => {
    menu.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' })
  }, [path, links])
  return (
    <nav class="menu" aria-label="Panels" ref={menu}>
      {shown.map((panel) => (
        <a
          key={panel.path}
          href={`/console/${panel.path}`}
          aria-current={path.split('/')[2] === panel.path ? 'page' : undefined}
        >
          {panel.title}
        </a>
      ))}
      {links.map(({ title, href }) => (
        <a key={href} href={framePath(href)} aria-current={path === framePath(href) ? 'page' : undefined}>
          {title}
        </a>
      ))}
    </nav>
  )
}

/** The panel of the address. It is a new one for each caller, so that it cannot show data of the former. */
function Panels() {
  const { path, route } = useLocation()
  const [failure, setFailure] = useState<unknown>()
  const isRecovered = recovered.value
  useEffect(() => {
    const reading = new AbortController()
    setFailure(undefined)
    readCatalog(reading.signal).catch((error: unknown) => {
      if (!reading.signal.aborted) setFailure(error)
    })
    return () => reading.abort()
  }, [isRecovered])
  useEffect(
    () => () => {
      catalog.value = undefined
    },
    [],
  )
  useEffect(() => {
    if (/^\/console\/?$/.test(path)) route('/console/data', true)
  }, [path, route])
  if (catalog.value === undefined && failure !== undefined) return <Problem of={failure} />
  if (catalog.value === undefined) return <p class="wait">Loading …</p>
  return (
    <ErrorBoundary>
      <Router>
        {PANELS.flatMap(({ path: name, component }) =>
          // `*` does not stand for nothing. One key for both, so that a panel stays when the rest of its address changes.
          [`/console/${name}`, `/console/${name}/*`].map((each) => (
            <Route key={name} path={each} component={component} />
          )),
        )}
        <Route path="/console/page/:href" component={Framed} />
        <Route default component={NoPanel} />
      </Router>
    </ErrorBoundary>
  )
}

const framePath = (href: string) => `/console/page/${encodeURIComponent(href)}`

/** Pages of other plugins that the console shows. */
function useLinks(): readonly Link[] {
  const [links, setLinks] = useState<readonly Link[]>([])
  const isRecovered = recovered.value
  useEffect(() => {
    readLinks().then(setLinks, () => {})
  }, [isRecovered])
  return links
}

/** A page of another plugin. Only linked pages are shown, and none of them can replace the console. */
function Framed() {
  const { params } = useRoute()
  const links = useLinks()
  const link = links.find(({ href }) => href === params['href'])
  if (!link) return links.length > 0 ? <NoPanel /> : <p class="wait">Loading …</p>
  return <iframe class="framed" title={link.title} src={link.href} sandbox={SANDBOX} />
}
const SANDBOX = 'allow-scripts allow-forms allow-same-origin allow-downloads'

const NoPanel = () => <p class="empty">There is no such panel.</p>
