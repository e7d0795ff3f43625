import { useState } from 'preact/hooks'
import { Failure, send } from '../../api.js'
import { textAt } from '../../json.js'
import { Dialog } from '../../ui/dialog.js'
import { fieldsOf } from '../../ui/form.js'
import { Problem } from '../../ui/problem.js'
import type { Channel, Provider } from './provider.js'

interface SendTestProps {
  readonly channel: Channel
  readonly providers: readonly Provider[]
  /** What to send. Defaults to a short text. */
  readonly mail?: { readonly sub: string; readonly text: string | null; readonly html: string | null }
  readonly close: () => void
}

type Payload = Readonly<Record<string, string | null>>
type Step =
  | { readonly kind: 'form' }
  | { readonly kind: 'confirm' | 'sending'; readonly payload: Payload }
  | { readonly kind: 'sent'; readonly id: string | undefined }
  | { readonly kind: 'failed'; readonly failure: unknown }

const SUBJECT = 'A test of the mail settings'
const TEXT = 'An admin has sent this message to test the settings.'

/** Sends a test to a recipient whom the user types and confirms. */
export function SendTest({ channel, providers, mail, close }: SendTestProps) {
  const [step, setStep] = useState<Step>({ kind: 'form' })
  const [fields, setFields] = useState<Readonly<Record<string, string>>>({})
  const called = providers.filter(({ position }) => position !== null)
  const first = called.find(({ skipped_seconds: skipped }) => skipped === null) ?? called[0]
  const catches = called.every((provider) => provider.catches)
  const submit = async (payload: Payload) => {
    setStep({ kind: 'sending', payload })
    try {
      const response = await send(`/v1/send/${channel}`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify(payload),
      })
      setStep({ kind: 'sent', id: response.headers.get('Location')?.split('/').at(-1) })
    } catch (failure) {
      setStep({ kind: 'failed', failure })
    }
  }
  const fill = (event: SubmitEvent) => {
    const given = fieldsOf(event)
    setFields(given)
    const { to = '', from = '', code = '' } = given
    const payload: Payload =
      channel === 'sms'
        ? { to: to.replaceAll(/\D/g, ''), countryCode: code.replaceAll(/\D/g, ''), message: TEXT }
        : { to, from, ...(mail ?? { sub: SUBJECT, text: TEXT }) }
    if (catches) void submit(payload)
    else setStep({ kind: 'confirm', payload })
  }
  return (
    <Dialog title={channel === 'sms' ? 'Send a test SMS' : 'Send a test mail'} close={close}>
      {step.kind === 'form' && (
        <form class="fields" onSubmit={fill}>
          {channel === 'sms' ? (
            <PhoneFields given={fields} />
          ) : (
            <MailFields given={fields} domain={first?.domains?.[0]} />
          )}
          {catches && <p class="soft">It is caught on this server and not delivered.</p>}
          <p>
            <button class="primary">{catches ? 'Send' : 'Continue'}</button>
          </p>
        </form>
      )}
      {(step.kind === 'confirm' || step.kind === 'sending') && (
        <>
          <p>
            This sends a real message through <b>{first?.name}</b> to{' '}
            <b class="recipient">{recipientOf(step.payload)}</b>.
          </p>
          <p class="row">
            <button
              type="button"
              class="primary"
              disabled={step.kind === 'sending'}
              onClick={() => void submit(step.payload)}
            >
              {step.kind === 'sending' ? 'Sending …' : 'Send it'}
            </button>
            <button type="button" disabled={step.kind === 'sending'} onClick={() => setStep({ kind: 'form' })}>
              Back
            </button>
          </p>
        </>
      )}
      {step.kind === 'sent' && (
        <p role="status">
          <span class={`state ${catches ? 'caught' : 'sent'}`}>
            {catches ? 'Caught.' : 'The provider has accepted it.'}
          </span>{' '}
          <MessageLink id={step.id} />
        </p>
      )}
      {step.kind === 'failed' && (
        <>
          <Problem of={step.failure}>
            {step.failure instanceof Failure && <p>{textAt(step.failure.body, 'detail')}</p>}
          </Problem>
          <p class="row">
            <button type="button" onClick={() => setStep({ kind: 'form' })}>
              Back
            </button>
            {step.failure instanceof Failure && <MessageLink id={textAt(step.failure.body, 'id')} />}
          </p>
        </>
      )}
    </Dialog>
  )
}

const recipientOf = ({ to, countryCode }: Payload): string => (countryCode ? `+${countryCode} ${to}` : (to ?? ''))

const MessageLink = ({ id }: { readonly id: string | undefined }) =>
  id === undefined ? null : <a href={`/console/messages/${encodeURIComponent(id)}`}>Open the message</a>

type Given = { readonly given: Readonly<Record<string, string>> }

const MailFields = ({ given, domain = 'example.com' }: Given & { readonly domain: string | undefined }) => (
  <>
    <label>
      To
      <input
        name="to"
        required
        autofocus
        autocomplete="off"
        placeholder="you@example.com"
        defaultValue={given['to'] ?? ''}
      />
    </label>
    <label>
      From
      <input name="from" required autocomplete="off" defaultValue={given['from'] ?? `test@${domain}`} />
    </label>
  </>
)

const PhoneFields = ({ given }: Given) => (
  <div class="phone">
    <label>
      Calling code
      <input
        name="code"
        required
        autofocus
        inputMode="tel"
        pattern="\+?[1-9]\d{0,2}"
        placeholder="+1"
        defaultValue={given['code'] ?? ''}
      />
    </label>
    <label>
      Number
      <input
        name="to"
        required
        inputMode="tel"
        pattern="[\d \-]{4,20}"
        placeholder="555 0100"
        defaultValue={given['to'] ?? ''}
      />
    </label>
  </div>
)
