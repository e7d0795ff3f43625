/** Returns the texts of a form that is submitted, by the names of its fields. */
export function fieldsOf(event: SubmitEvent): Readonly<Record<string, string>> {
  event.preventDefault()
  const entries = [...new FormData(event.currentTarget as HTMLFormElement)]
  return Object.fromEntries(entries.map(([name, value]) => [name, typeof value === 'string' ? value : value.name]))
}
