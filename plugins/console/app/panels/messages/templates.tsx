import { useCallback, useEffect, useState } from 'preact/hooks'
import { useLocation } from 'preact-iso'
import { ask, recovered } from '../../api.js'
import { Problem } from '../../ui/problem.js'
import type { ProvidersByChannel } from './provider.js'
import { type Draft, EMPTY, FIRST, TEMPLATES } from './template.js'
import { TemplateEditor } from './template-editor.js'

interface Summary {
  readonly name: string
  readonly subject: string
  readonly comment: string | null
}

const ROOT = '/console/messages/templates'

/** The mail templates that Rowhouse stores, and one of them: `/console/messages/templates/welcome`. */
export function Templates({
  name,
  providers,
}: {
  readonly name: string
  readonly providers: ProvidersByChannel | undefined
}) {
  const { query, route } = useLocation()
  const [templates, setTemplates] = useState<readonly Summary[]>()
  const [failure, setFailure] = useState<unknown>()
  const read = useCallback(() => {
    ask<{ readonly templates: readonly Summary[] }>(TEMPLATES).then(
      (found) => {
        setTemplates(found.templates)
        setFailure(undefined)
      },
      (error: unknown) => setFailure(error),
    )
  }, [])
  useEffect(read, [recovered.value])
  const isNew = name === '' && query['new'] !== undefined
  const go = (to: string) => {
    read()
    route(to === '' ? ROOT : `${ROOT}/${encodeURIComponent(to)}`, true)
  }
  const own = providers?.email.find(({ position, templates: has }) => position === 1 && has)
  return (
    <div class="split">
      <aside class="side" aria-label="Templates">
        <a class="new" href={`${ROOT}?new`} aria-current={isNew ? 'page' : undefined}>
          New template
        </a>
        <ul>
          {templates?.map((template) => (
            <li key={template.name}>
              <a
                href={`${ROOT}/${encodeURIComponent(template.name)}`}
                aria-current={template.name === name ? 'page' : undefined}
                title={template.comment ?? undefined}
              >
                {template.name}
              </a>
            </li>
          ))}
        </ul>
      </aside>
      <div class="scroll">
        {own && (
          <p class="soft body">
            The provider {own.name} has templates of its own: <code>/v1/send/email-template</code> uses those.
          </p>
        )}
        {failure !== undefined && <Problem of={failure} />}
        {isNew && <TemplateEditor key="?new" stored={FIRST} isNew providers={providers} done={go} />}
        {name !== '' && <Stored key={name} name={name} providers={providers} done={go} />}
        {name === '' && !isNew && templates && (
          <div class="empty">
            {templates.length === 0 ? (
              <>
                <h2>No templates yet</h2>
                <p>
                  A template is a mail with variables, in Liquid. <code>POST /v1/send/email-template</code> fills them
                  in.
                </p>
                <a href={`${ROOT}?new`}>Write the first one</a>
              </>
            ) : (
              'Choose a template.'
            )}
          </div>
        )}
      </div>
    </div>
  )
}

interface StoredProps {
  readonly name: string
  readonly providers: ProvidersByChannel | undefined
  readonly done: (name: string) => void
}

/** Reads a stored template. */
function Stored({ name, providers, done }: StoredProps) {
  const [stored, setStored] = useState<Draft>()
  const [failure, setFailure] = useState<unknown>()
  useEffect(() => {
    const reading = new AbortController()
    ask<Record<keyof Draft, string | null>>(`${TEMPLATES}/${encodeURIComponent(name)}`, {
      signal: reading.signal,
    }).then(
      (found) => {
        const given = Object.keys(EMPTY).map((key) => [key, found[key as keyof Draft] ?? ''])
        setStored(Object.fromEntries(given) as Draft)
      },
      (error: unknown) => {
        if (!reading.signal.aborted) setFailure(error)
      },
    )
    return () => reading.abort()
  }, [name, recovered.value])
  if (!stored && failure !== undefined) return <Problem of={failure} />
  if (!stored) return <p class="wait">Loading …</p>
  return <TemplateEditor stored={stored} providers={providers} done={done} />
}
