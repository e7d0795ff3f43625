import { useEffect, useRef } from 'preact/hooks'

/** Allows inline styles and inline images only. */
const POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
const HEAD = `<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${POLICY}">`

interface UntrustedHtmlProps {
  readonly html: string
  readonly title: string
  /** Gets the addresses of links as they are written. */
  readonly onLinks?: (hrefs: readonly string[]) => void
}

/**
 * Shows HTML of others without scripts, forms, navigation and network. The outer frame has a policy that allows inline
 * styles, which the console's does not; the inner one is sandboxed.
 */
export function UntrustedHtml(props: UntrustedHtmlProps) {
  const { html, title } = props
  const outer = useRef<HTMLIFrameElement>(null)
  const latest = useRef(props)
  latest.current = props
  const show = () => {
    const page = outer.current?.contentDocument
    if (!page?.body || page.location.pathname !== PATH) return
    const frame = page.createElement('iframe')
    frame.title = title
    frame.setAttribute('sandbox', '')
    frame.setAttribute('referrerpolicy', 'no-referrer')
    frame.srcdoc = HEAD + latest.current.html
    page.body.replaceChildren(frame)
    latest.current.onLinks?.(linksIn(latest.current.html, page))
  }
  useEffect(show, [html, title])
  return <iframe class="untrusted" ref={outer} src={PATH} title={title} onLoad={show} />
}

/** A parsed document runs no scripts and loads nothing. The page's parser does not complain about inline styles. */
function linksIn(html: string, { defaultView }: Document): readonly string[] {
  const { DOMParser: Parser } = defaultView as Window & typeof globalThis
  const links = new Parser().parseFromString(html, 'text/html').querySelectorAll('a[href], area[href]')
  return [...links].map((link) => link.getAttribute('href')!.trim())
}

const PATH = '/console/frame'
