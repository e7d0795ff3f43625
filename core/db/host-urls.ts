const ATTRIBUTES = ['any', 'read-write', 'read-only', 'primary', 'standby', 'prefer-standby']

/** A connection URL of one host, or of several of which one is chosen when connecting, as libpq does. */
export interface Hosts {
  /** One URL per host. */
  readonly urls: readonly [string, ...string[]]
  /** The parameter `target_session_attrs`. */
  readonly wanted: string
}

/** @returns undefined for an address without an authority, such as a folder of unix sockets */
export function parseHosts(url: string): Hosts | undefined {
  const [, before = '', hosts = '', after = ''] = /^(postgres(?:ql)?:\/\/(?:[^@/?#]*@)?)([^/?#]*)(.*)$/i.exec(url) ?? []
  if (before === '') return undefined
  const query = after.split('?')[1] ?? ''
  const wanted = new URLSearchParams(query).get('target_session_attrs') ?? 'any'
  return { urls: hosts.split(',').map((host) => before + host + after) as [string, ...string[]], wanted }
}

/** Returns whether a text is a connection URL. Quotes nothing of it. */
export function isPostgresUrl(text: string): boolean {
  // The driver also accepts a folder of unix sockets.
  if (text.startsWith('/') || text.startsWith('socket:')) return true
  const hosts = parseHosts(text)
  return hosts !== undefined && hosts.urls.every((url) => URL.canParse(url)) && ATTRIBUTES.includes(hosts.wanted)
}

/** Returns one connection URL per host. */
export const hostUrls = (url: string): readonly [string, ...string[]] => parseHosts(url)?.urls ?? [url]
