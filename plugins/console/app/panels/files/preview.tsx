import { useEffect, useState } from 'preact/hooks'
import { Failure, send } from '../../api.js'
import { Problem } from '../../ui/problem.js'
import { pathOf, sizeText, userHeaders } from './file-table.js'

/** Bytes of a text that are shown, and the largest file of another kind. */
const MAX_TEXT = 256 * 1024
const MAX_BYTES = 32 * 1024 * 1024

type Kind = 'image' | 'text' | 'pdf' | 'audio' | 'video'

/** Returns how a file of a type is shown. Nothing is shown in a way in which a file could run scripts. */
function kindOf(contentType: string): Kind | undefined {
  const type = mediaTypeOf(contentType)
  if (type === SVG || /^image\/[\w.-]+$/.test(type)) return 'image'
  if (/^(audio|video)\/[\w.-]+$/.test(type)) return type.startsWith('audio') ? 'audio' : 'video'
  if (type === 'application/pdf') return 'pdf'
  return /^text\/|[/+](json|xml|yaml|toml|sql|csv|(x-)?javascript|x-sh|x-ndjson)$/.test(type) ? 'text' : undefined
}

const SVG = 'image/svg+xml'

const mediaTypeOf = (contentType: string) => contentType.split(';', 1)[0]!.trim().toLowerCase()

interface Shown {
  readonly kind: Kind
  /** The text, or the address of the bytes. */
  readonly content: string
  readonly isCut?: boolean
}

/** Shows the content of a file, as the caller may read it. */
export function Preview({ id, version }: { readonly id: string; readonly version: unknown }) {
  const [shown, setShown] = useState<Shown | string>()
  const [failure, setFailure] = useState<unknown>()
  useEffect(() => {
    const reading = new AbortController()
    let address: string | undefined
    setShown(undefined)
    setFailure(undefined)
    read(id, reading.signal).then(
      (found) => {
        if (typeof found !== 'string' && found.kind !== 'text') address = found.content
        if (!reading.signal.aborted) setShown(found)
        else if (address !== undefined) URL.revokeObjectURL(address)
      },
      (error: unknown) => {
        if (!reading.signal.aborted) setFailure(error)
      },
    )
    return () => {
      reading.abort()
      if (address !== undefined) URL.revokeObjectURL(address)
    }
  }, [id, version])
  if (failure !== undefined) {
    return (
      <Problem of={failure}>
        {failure instanceof Failure && failure.status === 500 && (
          <p>The bytes of this file may be missing or damaged. An admin can check all files.</p>
        )}
      </Problem>
    )
  }
  if (shown === undefined) return <p class="wait">Loading …</p>
  if (typeof shown === 'string') return <p class="soft">{shown}</p>
  return <Content id={id} {...shown} />
}

function Content({ id, kind, content, isCut }: Shown & { readonly id: string }) {
  const [isBroken, setBroken] = useState(false)
  const onError = () => setBroken(true)
  if (isBroken) return <p class="soft">The browser cannot show this file.</p>
  switch (kind) {
    case 'image':
      return <img class="preview" src={content} alt={id} onError={onError} />
    case 'audio':
      return <audio class="preview" src={content} controls aria-label={id} onError={onError} />
    case 'video':
      return <video class="preview" src={content} controls aria-label={id} onError={onError} />
    case 'pdf':
      // Browsers show no PDF in a frame with a sandbox. This one cannot be a page: its type is application/pdf.
      return (
        <>
          <iframe class="preview" src={content} title={id} />
          <p>
            <a href={content} target="_blank" rel="noopener">
              Open in a tab
            </a>
          </p>
        </>
      )
    case 'text':
      return (
        <>
          <pre class="preview" tabIndex={0} aria-label="Text of the file" dir="auto">
            {content}
          </pre>
          {isCut && <p class="soft">This is the beginning. The whole file is longer than {sizeText(MAX_TEXT)}.</p>}
        </>
      )
  }
}

/** @returns what to show, or why nothing is shown */
async function read(id: string, signal: AbortSignal): Promise<Shown | string> {
  const response = await send(pathOf(id), { signal, headers: userHeaders() })
  const contentType = response.headers.get('Content-Type') ?? ''
  const kind = kindOf(contentType)
  const size = Number(response.headers.get('Content-Length') ?? 0)
  if (kind === undefined || (kind !== 'text' && size > MAX_BYTES)) {
    void response.body?.cancel()
    return kind === undefined
      ? 'Files of this type have no preview. Download it to see it.'
      : `This file has ${sizeText(size)}. A preview is possible up to ${sizeText(MAX_BYTES)}.`
  }
  const { bytes, isCut } = await readUpTo(response, kind === 'text' ? MAX_TEXT : MAX_BYTES)
  if (kind === 'text') return { kind, content: decoded(bytes, contentType), isCut }
  if (isCut) return `A preview is possible up to ${sizeText(MAX_BYTES)}.`
  const blob = new Blob([bytes], { type: mediaTypeOf(contentType) })
  return { kind, content: blob.type === SVG ? await dataUrl(blob) : URL.createObjectURL(blob) }
}

/**
 * Returns a `data:` URL, which has an origin of its own. A `blob:` URL has the origin of the console: opened in a tab, a
 * script of an SVG would act as the user.
 */
const dataUrl = (blob: Blob): Promise<string> =>
  new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.addEventListener('load', () => resolve(reader.result as string))
    reader.addEventListener('error', () => reject(new Error('the file cannot be read')))
    reader.readAsDataURL(blob)
  })

async function readUpTo(response: Response, most: number) {
  const parts: Uint8Array<ArrayBuffer>[] = []
  let left = most
  let isCut = false
  const reader = response.body?.getReader()
  for (let read = await reader?.read(); read?.value; read = await reader?.read()) {
    parts.push(read.value.subarray(0, left))
    isCut = read.value.length > left
    left -= read.value.length
    if (isCut) break
  }
  if (isCut) void reader?.cancel()
  return { bytes: await new Blob(parts).arrayBuffer(), isCut }
}

function decoded(bytes: ArrayBuffer, contentType: string): string {
  const charset = /charset="?([\w-]+)/i.exec(contentType)?.[1] ?? 'utf-8'
  try {
    return new TextDecoder(charset).decode(bytes)
  } catch {
    return new TextDecoder().decode(bytes)
  }
}
