import type { PermissionType } from 'rowhouse'
import type { Found, Say } from './effect.js'
import type { Parts } from './parts.js'
import { counted, without } from './words.js'

/** Says which names of a list are new or gone: `can read 2 more columns of note: id, text`. */
export function listEffects(
  was: readonly string[],
  is: readonly string[],
  { verb, word, of }: { readonly verb: string; readonly word: string; readonly of: string },
  say: Say,
): readonly Found[] {
  const [more, less] = [without(is, was), without(was, is)]
  const gained = `can ${verb} ${counted(more.length, word, 'more')} of ${of}: ${more.join(', ')}`
  const lost = `can no longer ${verb} ${counted(less.length, word)} of ${of}: ${less.join(', ')}`
  return [...(more.length > 0 ? [say('wider', gained)] : []), ...(less.length > 0 ? [say('narrower', lost)] : [])]
}

/** Says what changes for columns that the table does not have yet. */
export function laterColumns(was: Parts, is: Parts, verb: string, table: string, say: Say): readonly Found[] {
  if (was.isOpen === is.isOpen) return []
  return is.isOpen
    ? [say('wider', `can ${verb} columns that are added to ${table} later, too`)]
    : [say('narrower', `can no longer ${verb} columns that are added to ${table} later`)]
}

/** Says what the server sets now. This is neither more nor less for the role. */
export function presetEffects(
  was: Parts,
  is: Parts,
  action: PermissionType,
  table: string,
  say: Say,
): readonly Found[] {
  const can = action === 'insert' ? `can insert rows into ${table}` : `can update rows of ${table}`
  return [...new Set([...was.presets.keys(), ...is.presets.keys()])].flatMap((column) => {
    const [before, after] = [was.presets.get(column), is.presets.get(column)]
    if (before && after && JSON.stringify(before.to) === JSON.stringify(after.to)) return []
    const sets = after ? `sets ${column} to ${after.words}` : `no longer sets ${column}`
    return [say('different', `${can}, and the server ${sets}${before ? ` (was: ${before.words})` : ''}`)]
  })
}

export function limitEffects(was: Parts, is: Parts, table: string, say: Say): readonly Found[] {
  if (was.limit === is.limit) return []
  const words = ({ limit }: Parts) => (limit === undefined ? 'any number' : `at most ${limit}`)
  const effect = (is.limit ?? Infinity) > (was.limit ?? Infinity) ? 'wider' : 'narrower'
  const number = is.limit === undefined ? 'any number of' : words(is)
  const rows = is.limit === 1 ? 'row' : 'rows'
  return [say(effect, `can read ${number} ${rows} of ${table} at a time (was: ${words(was)})`)]
}
