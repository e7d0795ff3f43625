import { ask } from './api.js'

/** A page of a plugin. */
export interface Link {
  readonly title: string
  readonly href: string
  readonly panel?: boolean
}

/** Returns the pages of this server that plugins offer as panels. */
export async function readLinks(): Promise<readonly Link[]> {
  const { links } = await ask<{ readonly links: readonly Link[] }>('/', { headers: { Accept: 'application/json' } })
  return links.filter(({ panel, href }) => panel === true && /^\/[^/\\]/.test(href))
}
