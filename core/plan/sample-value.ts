import type { SqlType } from '../ir.js'

/**
 * Returns a value of a type as PostgreSQL's text, for plans that are made without a request. It is an unlikely one, so
 * that the statistics of a frequent value decide nothing.
 * @returns undefined for a type of which no value is known
 */
export function sampleValue(type: SqlType): string | undefined {
  if (type.element) {
    const element = sampleValue(type.element)
    if (element === undefined) return undefined
    return type.element.kind === 'array' ? `{"${element}"}` : `{${element}}`
  }
  if (type.labels) return type.labels[0]
  switch (type.kind) {
    case 'int2':
    case 'int4':
    case 'int8':
    case 'float':
    case 'numeric':
      return '-1'
    case 'bool':
      return 'true'
    case 'text':
      return 'x'
    case 'json':
    case 'jsonb':
      return '{}'
    case 'other':
      return SAMPLES.get(type.name)
    case 'array':
    case 'row':
    case 'range':
    case 'multirange':
    case 'hstore':
    case 'geometry':
    case 'geography':
      return undefined
  }
}

const SAMPLES: ReadonlyMap<string, string> = new Map([
  ['uuid', '00000000-0000-0000-0000-000000000000'],
  ['date', '2000-01-01'],
  ['timestamp', '2000-01-01T00:00:00'],
  ['timestamptz', '2000-01-01T00:00:00Z'],
  ['time', '00:00:00'],
  ['interval', '1 day'],
  ['inet', '127.0.0.1'],
  ['tsquery', 'x'],
])
