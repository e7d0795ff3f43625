import { USER_ID } from '../data.js'

/** Conditions that a request adds, because the server itself hides no rows. */
export const PERMITTED = {
  article: { _or: [{ author_id: { _eq: USER_ID } }, { published: { _eq: true } }] },
  comment: { hidden: { _eq: false } },
}

/** A path of Directus's REST interface. @param more parameters of the URL; an object is sent as JSON */
export function itemsPath(
  items: string,
  fields: readonly string[],
  more: Readonly<Record<string, string | number | object>>,
): string {
  const parameters = Object.entries({ fields: fields.join(), ...more })
  const text = (value: string | number | object) => (typeof value === 'object' ? JSON.stringify(value) : String(value))
  return `/items/${items}?${parameters.map(([name, value]) => `${name}=${encodeURIComponent(text(value))}`).join('&')}`
}
