import { useEffect, useState } from 'preact/hooks'
import { useLocation, useRoute } from 'preact-iso'
import { ask, Failure, recovered } from '../../api.js'
import { findTable } from '../../catalog.js'
import { acting, isAdmin, role } from '../../session.js'
import { Problem } from '../../ui/problem.js'
import { Tabs } from '../../ui/tabs.js'
import { onlyCatches } from './message.js'
import { Outbox } from './outbox.js'
import type { ProvidersByChannel } from './provider.js'
import { Providers } from './providers.js'
import { Suppressed } from './suppressed.js'
import { Templates } from './templates.js'

const ROOT = '/console/messages'
const VIEWS = {
  '': 'Messages',
  templates: 'Templates',
  providers: 'Providers',
  suppressed: 'Suppressed',
} as const
type View = keyof typeof VIEWS
const TABS = (Object.keys(VIEWS) as View[]).map((key) => ({ key, title: VIEWS[key] }))

/** Emails and SMS: `/console/messages/<id>`, and below `templates`, `providers` and `suppressed`. */
export default function Messages() {
  return role.value === 'admin' ? <Admin /> : <OtherRole />
}

function Admin() {
  const { rest = '' } = useRoute() as { readonly rest?: string }
  const { route } = useLocation()
  const [first = '', ...others] = rest.replace(/^\//, '').split('/').map(decodeURIComponent)
  const view: View = first in VIEWS ? (first as View) : ''
  const { providers, failure, read } = useProviders()
  if (failure instanceof Failure && failure.status === 404) return <NotLoaded />
  return (
    <div class="page messages">
      <div class="messages-top">
        <Tabs
          label="Messages"
          tabs={TABS}
          chosen={view}
          onChoose={(key) => route(key === '' ? ROOT : `${ROOT}/${key}`)}
        />
        {providers && onlyCatches(providers) && <Catcher />}
      </div>
      {failure !== undefined && view !== '' && (
        <Problem of={failure}>
          <button type="button" onClick={read}>
            Try again
          </button>
        </Problem>
      )}
      {view === '' && <Outbox id={first} />}
      {view === 'templates' && <Templates name={others.join('/')} providers={providers} />}
      {view === 'providers' && providers && <Providers of={providers} refresh={read} />}
      {view === 'suppressed' && <Suppressed />}
    </div>
  )
}

/** Says that the providers only catch messages. */
const Catcher = () => (
  <p class="catcher">
    <b>Mail catcher.</b> Nothing leaves this server: mails and SMS are caught here.
  </p>
)

function useProviders() {
  const [state, setState] = useState<{ readonly providers?: ProvidersByChannel; readonly failure?: unknown }>({})
  const read = () => {
    ask<ProvidersByChannel>('/v1/send/providers').then(
      (providers) => setState({ providers }),
      (failure: unknown) => setState((before) => ({ ...before, failure })),
    )
  }
  useEffect(read, [recovered.value])
  return { ...state, read }
}

const NotLoaded = () => (
  <div class="empty">
    <h2>Messages are not available</h2>
    <p>
      The plugin <code>notify</code> is not loaded. It sends emails and SMS, and stores each before it is sent.
    </p>
  </div>
)

/** What another role may do: at most send, if it may insert into the outbox. */
function OtherRole() {
  const outbox = findTable('svc_catalog.svc_outbox')
  const fields = outbox?.actions.insert ? outbox.columns.filter(({ insert }) => insert).map(({ name }) => name) : []
  return (
    <div class="empty">
      <h2>Only an admin sees the messages</h2>
      {fields.length > 0 ? (
        <p>
          The role {role.value} may send messages with <code>send_email</code> and <code>send_sms</code>, and fill{' '}
          {fields.join(', ')}.
        </p>
      ) : (
        <p>The role {role.value} may neither see nor send messages.</p>
      )}
      {isAdmin.value && (
        <button type="button" class="primary" onClick={() => (acting.value = undefined)}>
          Be admin again
        </button>
      )}
    </div>
  )
}
