import { definitions, element, sizeOf, stateOf, timeOf } from './dom.js'

const KINDS = { email: 'email', 'email-template': 'email template', sms: 'SMS' }

export function titleOf({ kind, sub, template, message }) {
  if (kind === 'sms') return message || sub || '(SMS)'
  if (sub) return sub
  return kind === 'email-template' ? `Template ${template}` : '(no subject)'
}

export const recipientOf = ({ kind, country_code: code, to }) =>
  kind === 'sms' ? `+${code ?? ''} ${to}` : Array.isArray(to) ? to.join(', ') : String(to)

export const senderOf = ({ from, from_name: name }) => (name && from ? `${name} <${from}>` : (from ?? ''))

export const kindOf = ({ kind }) => KINDS[kind] ?? kind

/** Creates everything below the heading of a message. */
export const messageDetails = (message, actions) => [
  element(
    'p',
    { className: 'row' },
    stateOf(message.state),
    message.delivery ? stateOf(message.delivery) : '',
    element('span', { className: 'soft' }, kindOf(message)),
  ),
  ...(message.error ? [element('p', { className: 'error' }, message.error)] : []),
  ...actions,
  headersOf(message),
  ...contentsOf(message),
  element('h3', {}, 'Timeline'),
  timelineOf(message),
  element('h3', {}, 'Delivery'),
  factsOf(message),
]

const headersOf = (message) =>
  definitions({
    To: recipientOf(message),
    Cc: addresses(message.cc),
    Bcc: addresses(message.bcc),
    From: senderOf(message),
    'Reply to': addresses(message.reply_to),
    Subject: message.kind === 'sms' ? null : message.sub,
    Template: message.template,
  })

const addresses = (value) =>
  (Array.isArray(value) ? value : [value])
    .map((one) => (one && typeof one === 'object' ? senderOf({ from: one.address, from_name: one.name }) : one))
    .filter(Boolean)
    .join(', ')

function contentsOf({ kind, text, html, message, content, attachments }) {
  const parts = []
  if (kind === 'sms' && isPresent(message)) {
    parts.push(element('h3', {}, 'Text'), element('div', { className: 'sms' }, message))
  }
  const values = Array.isArray(content) ? content.map((one) => one.content) : []
  const links = linksOf(html ?? '', [text ?? message ?? '', ...values].join('\n'))
  if (isPresent(html)) {
    const note = links.length > 0 ? `${FRAME_NOTE} All links are listed below.` : FRAME_NOTE
    parts.push(element('h3', {}, 'HTML'), frameOf(html), element('p', { className: 'note' }, note))
  }
  if (isPresent(text)) parts.push(element('h3', {}, 'Text'), element('pre', { tabIndex: 0 }, text))
  if (links.length > 0) {
    const anchors = links.map((href) =>
      element('li', {}, element('a', { href, target: '_blank', rel: 'noopener noreferrer' }, href)),
    )
    parts.push(element('h3', {}, 'Links'), element('ul', { className: 'plain' }, ...anchors))
  }
  if (isPresent(content)) parts.push(element('h3', {}, 'Values'), valuesOf(content))
  if (parts.length === 0) {
    parts.push(element('h3', {}, 'Contents'), element('p', {}, 'The contents were deleted after sending.'))
  }
  if (attachments?.length > 0) {
    const files = attachments.map(({ filename, content_type: type, size }) =>
      element('li', {}, `${filename} `, element('span', { className: 'soft' }, `${type}, ${sizeOf(size)}`)),
    )
    parts.push(element('h3', {}, 'Attachments'), element('ul', { className: 'plain' }, ...files))
  }
  if (isPresent(html)) {
    parts.push(
      element('details', {}, element('summary', {}, 'Source of the HTML'), element('pre', { tabIndex: 0 }, html)),
    )
  }
  return parts
}

const valuesOf = (content) =>
  Array.isArray(content)
    ? definitions(Object.fromEntries(content.map(({ name, content: value }) => [name, value])))
    : element('pre', { tabIndex: 0 }, typeof content === 'string' ? content : JSON.stringify(content, null, 2))

const FRAME_NOTE = 'Remote content, including images, is not loaded. Links, forms and scripts are disabled.'
/** Allows inline styles and inline images only. */
const FRAME_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

/** Creates a frame without scripts, forms, navigation and network, because a mail is untrusted HTML. */
function frameOf(html) {
  const policy = `<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${FRAME_POLICY}">`
  const frame = element('iframe', { title: 'HTML of the message' })
  frame.setAttribute('sandbox', '')
  frame.setAttribute('referrerpolicy', 'no-referrer')
  frame.srcdoc = policy + html
  return frame
}

/** Returns the http and https URLs in a message, without duplicates. */
function linksOf(html, text) {
  // A parsed document runs no scripts and loads nothing.
  const anchors = [...new DOMParser().parseFromString(html, 'text/html').querySelectorAll('a[href], area[href]')]
  const written = anchors.map((anchor) => anchor.getAttribute('href').trim())
  const found = [...written, ...(text.match(/https?:\/\/[^\s<>"']+[^\s<>"'.,;:!?)]/g) ?? [])]
  return [...new Set(found.filter((href) => /^https?:\/\//i.test(href) && URL.canParse(href)))]
}

function timelineOf(message) {
  const {
    created_at: created,
    sent_at: sent,
    next_at: due,
    delivery,
    delivery_at: deliveryTime,
    attempts,
    state,
  } = message
  const attemptCount = `${attempts} ${attempts === 1 ? 'attempt' : 'attempts'}`
  const steps = [[created, message.mode === 'queue' ? 'queued' : 'received']]
  if (sent) steps.push([sent, `accepted by the provider after ${attemptCount}`])
  else if (state === 'failed') steps.push([null, `failed after ${attemptCount}`])
  else if (state === 'unknown') steps.push([null, `outcome unknown after ${attemptCount}`])
  else if (attempts > 0) steps.push([null, `${attemptCount} so far`])
  if (delivery)
    steps.push([deliveryTime, `${delivery}${message.delivery_detail ? `: ${message.delivery_detail}` : ''}`])
  if (due && (state === 'queued' || state === 'sending')) steps.push([due, 'next attempt'])
  return element(
    'ol',
    { className: 'plain' },
    ...steps.map(([at, what]) => element('li', {}, at ? timeOf(at, true) : '', what)),
  )
}

const factsOf = (message) =>
  definitions({
    Provider: message.provider,
    Reference: message.provider_id,
    'Provider response': message.detail,
    Mode: message.mode,
    Attempts: String(message.attempts ?? 0),
    Id: message.id,
  })

const isPresent = (value) => value !== null && value !== undefined
