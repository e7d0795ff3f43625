import { useState } from 'preact/hooks'
import { send } from '../../api.js'
import type { Json } from '../../json.js'
import { Problem } from '../../ui/problem.js'
import { UntrustedHtml } from '../../ui/untrusted.js'
import { linksOf, type OpenMessage, sizeOf, valuesOf } from './message.js'
import { Facts } from './parts.js'

/** What a message says. Its HTML is untrusted. */
export function Contents({ message }: { readonly message: OpenMessage }) {
  const { kind, text, html, content, attachments } = message
  const sms = kind === 'sms' ? message.message : null
  const [written, setWritten] = useState<readonly string[]>([])
  const links = linksOf(message, written)
  const hasAny = [sms, text, html, content].some((part) => part !== null)
  return (
    <>
      {sms !== null && (
        <>
          <h3>Text</h3>
          <div class="sms">{sms}</div>
        </>
      )}
      {html !== null && (
        <>
          <h3>HTML</h3>
          <UntrustedHtml html={html} title="HTML of the message" onLinks={setWritten} />
          <p class="soft">
            Remote content, including images, is not loaded. Links, forms and scripts are disabled.
            {links.length > 0 && ' All links are listed below.'}
          </p>
        </>
      )}
      {text !== null && (
        <>
          <h3>Text</h3>
          <pre class="source" tabIndex={0} aria-label="Text of the message">
            {text}
          </pre>
        </>
      )}
      {links.length > 0 && <Links of={links} />}
      {content !== null && (
        <>
          <h3>Values</h3>
          <Values of={content} />
        </>
      )}
      {!hasAny && (
        <>
          <h3>Contents</h3>
          <p>The contents were deleted after sending.</p>
        </>
      )}
      {attachments.length > 0 && <Attachments message={message} />}
      {html !== null && (
        <details>
          <summary>Source of the HTML</summary>
          <pre class="source" tabIndex={0} aria-label="Source of the HTML">
            {html}
          </pre>
        </details>
      )}
    </>
  )
}

const Links = ({ of }: { readonly of: readonly string[] }) => (
  <>
    <h3>Links</h3>
    <ul class="plain">
      {of.map((href) => (
        <li key={href}>
          <a href={href} target="_blank" rel="noopener noreferrer">
            {href}
          </a>
        </li>
      ))}
    </ul>
  </>
)

function Values({ of }: { readonly of: Json }) {
  const values = valuesOf(of)
  return values.length > 0 ? <Facts of={values} /> : <pre class="source">{JSON.stringify(of, null, 2)}</pre>
}

function Attachments({ message: { id, attachments } }: { readonly message: OpenMessage }) {
  const [failure, setFailure] = useState<unknown>()
  const download = async (position: number, filename: string) => {
    try {
      const response = await send(`/v1/send/${encodeURIComponent(id)}/attachments/${position}`)
      const url = URL.createObjectURL(await response.blob())
      Object.assign(document.createElement('a'), { href: url, download: filename }).click()
      setTimeout(() => URL.revokeObjectURL(url), 60_000)
      setFailure(undefined)
    } catch (error) {
      setFailure(error)
    }
  }
  return (
    <>
      <h3>Attachments</h3>
      <ul class="plain">
        {attachments.map(({ filename, content_type: type, size }, i) => (
          <li key={i}>
            <button type="button" class="quiet" onClick={() => void download(i, filename)}>
              {filename}
            </button>{' '}
            <span class="soft">
              {type}, {sizeOf(size)}
            </span>
          </li>
        ))}
      </ul>
      {failure !== undefined && <Problem of={failure} />}
    </>
  )
}
