import { pluralize, singularize } from 'inflection'

/** Words whose singular is not what rules make of them. */
const OWN: ReadonlyMap<string, string> = new Map(
  Object.entries({
    analyses: 'analysis',
    axes: 'axis',
    caches: 'cache',
    calories: 'calorie',
    cookies: 'cookie',
    headaches: 'headache',
    lenses: 'lens',
    lies: 'lie',
    niches: 'niche',
    pies: 'pie',
    schemata: 'schema',
    ties: 'tie',
  }),
)
/** Words in s that are singular. */
const SINGULAR = new Set(['atlas', 'aws', 'census', 'ios', 'lens', 'canvas', 'chaos', 'cosmos', 'yes'])
/** Words in a that are plural. Others, such as data and quota, are singular or both. */
const PLURAL_IN_A = /(?:bacteri|errat|memorand|millenni|strat|spectr)a$|^media$|(?:criteri|phenomen)a$/
/** Words in ves whose singular is in f or fe. Those of others, such as valves and reserves, are in ve. */
const IN_F = /(?:^el|cal|hal|hoo|loa|scar|^sel|shea|shel|thie|whar|wol)ves$/
const IN_FE = /(?:kni|wi|^li|^afterli)ves$/

/**
 * Returns the singular of a word in lower case: the word itself, if its singular is no word of English, or if the plural
 * of that is another word.
 */
export function singularOf(word: string): string {
  const own = OWN.get(word)
  if (own !== undefined) return own
  if (SINGULAR.has(word) || (word.endsWith('a') && !PLURAL_IN_A.test(word))) return word
  if (IN_F.test(word)) return word.replace(/ves$/, 'f')
  if (IN_FE.test(word)) return word.replace(/ves$/, 'fe')
  if (word.endsWith('ves')) return word.slice(0, -1)
  const one = singularize(word)
  const isWord = /[aeiouy]/.test(one) && !/^.?[aeiou]$/.test(one)
  return isWord && [pluralize(one), `${one}s`, `${one}es`].includes(word) ? one : word
}
