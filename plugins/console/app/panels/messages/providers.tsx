import { useEffect, useState } from 'preact/hooks'
import { Code } from '../../ui/code.js'
import { Facts, State } from './parts.js'
import type { Channel, Provider, ProvidersByChannel } from './provider.js'
import { SendTest } from './send-test.js'

const TITLES = { email: 'Email', sms: 'SMS' } as const
const REFRESH_MS = 5000

/** The configured providers in the order of calls, and a test send. */
export function Providers({ of, refresh }: { readonly of: ProvidersByChannel; readonly refresh: () => void }) {
  const [testing, setTesting] = useState<Channel>()
  useEffect(() => {
    const timer = setInterval(() => document.visibilityState === 'visible' && refresh(), REFRESH_MS)
    return () => clearInterval(timer)
  }, [])
  return (
    <div class="scroll body providers">
      {(['email', 'sms'] as const).map((channel) => (
        <section key={channel} aria-label={TITLES[channel]}>
          <div class="row">
            <h2>{TITLES[channel]}</h2>
            {of[channel].some(({ position }) => position !== null) && (
              <button type="button" class="push" onClick={() => setTesting(channel)}>
                Send a test {channel === 'email' ? 'mail' : 'SMS'}
              </button>
            )}
          </div>
          {of[channel].length === 0 ? (
            <NotConfigured channel={channel} />
          ) : (
            <ol class="cards">
              {of[channel].map((provider) => (
                <Card key={provider.name} provider={provider} channel={channel} />
              ))}
            </ol>
          )}
        </section>
      ))}
      <p class="soft">
        The state is that of the server that answered. Providers are configured in <code>rowhouse.config.js</code>.
      </p>
      {testing && (
        <SendTest
          channel={testing}
          providers={of[testing]}
          close={() => {
            setTesting(undefined)
            refresh()
          }}
        />
      )}
    </div>
  )
}

function Card({ provider, channel }: { readonly provider: Provider; readonly channel: Channel }) {
  const { name, position, domains, events, templates, per_second: perSecond } = provider
  return (
    <li class="card">
      <p class="row">
        <b class="mono">{name}</b>
        <ProviderStateOf provider={provider} />
        <span class="soft push">{orderOf(position)}</span>
      </p>
      {position !== null && (
        <Facts
          of={[
            ['Sends from', channel === 'email' ? (domains?.join(', ') ?? 'any domain') : null],
            ['Templates', channel === 'email' ? (templates ? 'its own' : 'those stored here') : null],
            ['Delivery events', events ? 'received' : 'not configured'],
            ['Limit', perSecond === null ? 'none' : `${perSecond} per second`],
          ]}
        />
      )}
    </li>
  )
}

const orderOf = (position: number | null): string =>
  position === null ? 'not called' : position === 1 ? 'default' : `failover ${position - 1}`

function ProviderStateOf({
  provider: { position, catches, skipped_seconds: skipped },
}: {
  readonly provider: Provider
}) {
  if (position === null) return <State of="queued">configured</State>
  if (skipped !== null) return <State of="failed">skipped after failures, for {skipped} s</State>
  if (catches) return <State of="caught">catches messages</State>
  return <State of="sent">ready</State>
}

const NotConfigured = ({ channel }: { readonly channel: Channel }) => (
  <div class="first-steps">
    <p>No provider is configured, so messages of this kind are refused. For example:</p>
    <Code text={EXAMPLES[channel]} label={`Configuration of a provider for ${TITLES[channel]}`} />
  </div>
)

const EXAMPLES = {
  email: `// rowhouse.config.js
export default {
  providers: { email: { smtp: { host: 'smtp.example.com', username: 'shop', password: { $env: 'SMTP_PASSWORD' } } } },
}`,
  sms: `// rowhouse.config.js
export default {
  providers: { sms: { twilio: { accountSid: 'AC...', authToken: { $env: 'TWILIO_TOKEN' }, from: '+12025550123' } } },
}`,
} as const
