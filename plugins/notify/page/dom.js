/** Creates an HTML element. Text is never parsed as markup. */
export function element(tag, properties = {}, ...children) {
  const { role, ...others } = properties
  const created = Object.assign(document.createElement(tag), others)
  if (role) created.setAttribute('role', role)
  created.append(...children.filter((child) => child !== ''))
  return created
}

/** Creates a list of the names that have a value. */
export const definitions = (values) =>
  element(
    'dl',
    {},
    ...Object.entries(values)
      .filter(([, value]) => value !== null && value !== undefined && value !== '')
      .flatMap(([name, value]) => [element('dt', {}, name), element('dd', {}, value)]),
  )

export const stateOf = (state) => element('span', { className: `state ${/^[a-z]+$/.test(state) ? state : ''}` }, state)

export function timeOf(iso, withDate = false) {
  const date = new Date(iso)
  const today = date.toDateString() === new Date().toDateString()
  const clock = { hour: '2-digit', minute: '2-digit', second: '2-digit' }
  const text = withDate
    ? date.toLocaleString()
    : today
      ? date.toLocaleTimeString(undefined, clock)
      : date.toLocaleDateString(undefined, { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit' })
  return element('time', { dateTime: iso, title: date.toLocaleString() }, text)
}

export function sizeOf(bytes) {
  if (bytes < 1024) return `${bytes} bytes`
  const unit = bytes < 1024 ** 2 ? ['KiB', 1024] : ['MiB', 1024 ** 2]
  return `${(bytes / unit[1]).toFixed(1)} ${unit[0]}`
}
