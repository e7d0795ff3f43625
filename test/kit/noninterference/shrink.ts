import type { Difference } from './property.js'
import type { Case } from './requests.js'
import type { Json } from './schema.js'
import { type Answer, difference } from './twins.js'

const TRIES = 150

/** Leaves out parts of the body for as long as the difference stays of its kind. */
export async function shrink(
  found: Difference,
  ask: (test: Case) => Promise<readonly [Answer, Answer]>,
): Promise<Difference> {
  const wanted = difference(...found.answers, found.test.listed)
  let least = found
  let tries = 0
  for (let shrunk = true; shrunk;) {
    shrunk = false
    for (const body of smaller(least.test.body ?? null)) {
      if (tries++ >= TRIES) return least
      const test = { ...least.test, body }
      const answers = await ask(test)
      if (difference(...answers, test.listed) !== wanted) continue
      least = { ...least, test, answers }
      shrunk = true
      break
    }
  }
  return least
}

/** A value without one of its parts, however deep. */
function* smaller(value: Json): Generator<Json> {
  if (Array.isArray(value)) {
    for (const [i, each] of (value as readonly Json[]).entries()) {
      yield value.toSpliced(i, 1) as Json
      for (const less of smaller(each)) yield value.with(i, less) as Json
    }
  } else if (typeof value === 'object' && value !== null) {
    const object = value as { readonly [key: string]: Json }
    for (const key of Object.keys(object)) {
      const { [key]: each, ...rest } = object
      yield rest
      for (const less of smaller(each as Json)) yield { ...object, [key]: less }
    }
  }
}
