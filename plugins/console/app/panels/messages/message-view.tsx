import { useEffect, useRef, useState } from 'preact/hooks'
import { ask } from '../../api.js'
import { Problem } from '../../ui/problem.js'
import { Contents } from './contents.js'
import {
  addressesOf,
  KINDS,
  type Message,
  type OpenMessage,
  type Recipient,
  recipientOf,
  senderOf,
  timelineOf,
  titleOf,
} from './message.js'
import { Facts, State, StateOf, Time } from './parts.js'
import { useMessage } from './use-messages.js'

interface MessageViewProps {
  readonly id: string
  /** The message as the list has it, which tells when it has changed. */
  readonly listed: Message | undefined
  readonly close: () => void
  readonly refresh: () => void
}

/** Everything that is known about one message. */
export function MessageView({ id, listed, close, refresh }: MessageViewProps) {
  const [resent, setResent] = useState(0)
  const { message, failure } = useMessage(id, `${versionOf(listed)} ${resent}`)
  const heading = useRef<HTMLHeadingElement>(null)
  const isShown = message !== undefined || failure !== undefined
  useEffect(() => {
    if (isShown) heading.current?.focus()
  }, [isShown])
  const title = message && (message.kind === 'sms' ? `SMS to ${recipientOf(message)}` : titleOf(message))
  return (
    <article class="scroll one" aria-label="Message">
      <button type="button" class="quiet" onClick={close}>
        Close
      </button>
      {isShown ? (
        <h2 tabIndex={-1} ref={heading}>
          {title ?? 'This message cannot be shown'}
        </h2>
      ) : (
        <p class="wait">Loading …</p>
      )}
      {failure !== undefined && <Problem of={failure} />}
      {message && (
        <Details
          message={message}
          resent={() => {
            setResent(resent + 1)
            refresh()
          }}
        />
      )}
    </article>
  )
}

const versionOf = (listed: Message | undefined): string =>
  listed === undefined
    ? ''
    : JSON.stringify([listed.state, listed.attempts, listed.next_at, listed.sent_at, listed.delivery, listed.error])

function Details({ message, resent }: { readonly message: OpenMessage; readonly resent: () => void }) {
  return (
    <>
      <p class="row">
        <StateOf message={message} />
        {message.delivery && <State of={message.delivery} />}
        <span class="soft">{KINDS[message.kind]}</span>
      </p>
      {message.error && <p class="problem">{message.error}</p>}
      <SendAgain key={message.state} message={message} done={resent} />
      <Facts
        of={[
          ['To', recipientOf(message)],
          ['Cc', addressesOf(message.cc)],
          ['Bcc', addressesOf(message.bcc)],
          ['From', senderOf(message)],
          ['Reply to', addressesOf(message.reply_to)],
          ['Subject', message.kind === 'sms' ? null : message.sub],
          ['Template', message.template],
        ]}
      />
      {message.recipients && (
        <>
          <h3>Recipients</h3>
          <Facts of={message.recipients.map((each) => [each.address, outcomeOf(each)])} />
        </>
      )}
      <Contents message={message} />
      <h3>Timeline</h3>
      <ol class="timeline">
        {timelineOf(message).map(([at, what]) => (
          <li key={what}>
            {at !== null && <Time at={at} withDate />} {what}
          </li>
        ))}
      </ol>
      <h3>Delivery</h3>
      <Facts
        of={[
          ['Provider', message.provider],
          ['Reference', message.provider_id],
          ['Provider response', message.detail],
          ['Mode', message.mode],
          ['Attempts', String(message.attempts)],
          ['Id', message.id],
        ]}
      />
    </>
  )
}

const outcomeOf = ({ outcome, detail, delivery }: Recipient): string =>
  [outcome, delivery, detail].filter(Boolean).join(': ')

/** Sends a `failed` or `unknown` message again, and a partly sent one to those who did not get it. */
function SendAgain({ message: { id, state }, done }: { readonly message: OpenMessage; readonly done: () => void }) {
  const [isBusy, setBusy] = useState(false)
  const [failure, setFailure] = useState<unknown>()
  if (state !== 'failed' && state !== 'unknown' && state !== 'partly_sent') return null
  const send = async () => {
    setBusy(true)
    try {
      await ask(`/v1/send/${encodeURIComponent(id)}/retry`, { json: {} })
      done()
    } catch (error) {
      setFailure(error)
      setBusy(false)
    }
  }
  return (
    <>
      <p class="row">
        <button type="button" class="primary" disabled={isBusy} onClick={() => void send()}>
          Send again
        </button>
        {state === 'partly_sent' && <span class="soft">Only to the recipients who did not get it.</span>}
        {state === 'unknown' && <span class="soft">It may have been sent. The recipient may get it twice.</span>}
      </p>
      {failure !== undefined && <Problem of={failure} />}
    </>
  )
}
