import { isAdmin, permissionRole, roleName } from 'rowhouse'
import { type Catalog, namesFor, tableName } from 'rowhouse/plan'
import { functionObject, tableObject } from '../objects.js'
import type { Effect, Found, State, View } from './effect.js'
import { permissionEffects } from './permissions.js'
import { relatedEffects } from './related.js'
import { createRules, type Rules } from './rules.js'
import { versionEffects } from './versions.js'
import { kindAndName } from './words.js'

/**
 * Says what a change of the metadata means for each role, by object. `wider` and `narrower` are proven; where that is not
 * possible, the effect is `unknown`.
 * @param changed the objects whose entries differ
 */
export function effectsOf(before: State, after: State, changed: ReadonlySet<string>): ReadonlyMap<string, Effect[]> {
  const effects = new Map<string, Effect[]>()
  const add = (role: string | null, subject: string, { because, effect, text }: Found) => {
    const object = because.find((each) => changed.has(each)) ?? (because[0] as string)
    const all = effects.get(object) ?? []
    effects.set(object, [...all, { role, effect, text: `${subject}${text}` }])
  }
  for (const found of forAll(changed, after)) add(null, '', found)
  for (const found of forAdmin(before.catalog, after.catalog)) add('admin', 'role admin ', found)
  const tables = tablesThatDiffer(before.catalog, after.catalog)
  const [was, is] = [viewOf('admin', before), viewOf('admin', after)]
  for (const found of tables.flatMap((table) => versionEffects(table, was, is))) add('admin', 'role admin ', found)
  const rules = createRules(before, after)
  for (const role of rolesOf(before.catalog, after.catalog)) {
    const own = ofRole(role, tables, before, after, rules)
    for (const found of own) add(role, `role ${role} `, found)
    // A backend request has the role's other permissions too.
    const backend = permissionRole({ role, backend: true })
    for (const found of ofRole(backend, tables, before, after, rules)) {
      if (own.some(({ text }) => text === found.text)) continue
      add(role, `role ${role}, in requests with backend-only permissions, `, found)
    }
  }
  return effects
}

/** Returns the tables of which not all is the same. Snapshots share the objects of equal tables, and number filters alike. */
function tablesThatDiffer(before: Catalog, after: Catalog): readonly string[] {
  const keys = [...new Set([...before.tables.keys(), ...after.tables.keys()])]
  const isSame = before.filters.every((filter, i) => filter === after.filters[i])
  return isSame ? keys.filter((key) => before.tables.get(key) !== after.tables.get(key)) : keys
}

function rolesOf(...catalogs: readonly Catalog[]): readonly string[] {
  const roles = catalogs.flatMap(({ tables, functions }) => [
    ...[...tables.values()].flatMap(({ permissionsByRole }) => [...permissionsByRole.keys()].map(roleName)),
    ...functions.flatMap((each) => each.roles),
  ])
  return [...new Set(roles)].filter((role) => !isAdmin({ role })).sort()
}

function ofRole(key: string, tables: readonly string[], before: State, after: State, rules: Rules): readonly Found[] {
  const [was, is] = [viewOf(key, before), viewOf(key, after)]
  return [
    ...tables.flatMap((table) => [
      ...permissionEffects(table, was, is, rules),
      ...versionEffects(table, was, is),
      ...relatedEffects(table, was, is),
    ]),
    ...functionEffects(was, is),
  ]
}

const viewOf = (key: string, state: State): View => ({ ...state, key, names: namesFor(key, state.catalog) })

function functionEffects(was: View, is: View): readonly Found[] {
  const [before, after] = [was, is].map(
    ({ names }) => new Map(names.functions().map((each) => [functionObject(each), each])),
  ) as [Map<string, Called>, Map<string, Called>]
  const objects = new Set([...before.keys(), ...after.keys()])
  return [...objects].flatMap((object): Found[] => {
    const [old, now] = [before.get(object), after.get(object)]
    const because = [object, `permission ${tableName((now ?? old)?.table as Called)}.${roleName(is.key)}.select`]
    const name = tableName((now ?? old) as Called)
    if (!old) return [{ because, effect: 'wider', text: `can call ${name}` }]
    if (!now) return [{ because, effect: 'narrower', text: `can no longer call ${name}` }]
    if (meaning(old) === meaning(now)) return []
    return [{ because, effect: 'unknown', text: `can call ${name} with other arguments or another result` }]
  })
}
type Called = Catalog['functions'][number]
const meaning = ({ arguments: given, table, result, many }: Called): string =>
  JSON.stringify([given, table, result ?? null, many])

function forAdmin(before: Catalog, after: Catalog): readonly Found[] {
  const kinds = [
    {
      of: ({ tables }: Catalog) => new Map([...tables.values()].map((each) => [tableObject(each), each])),
      verb: 'use',
    },
    { of: ({ functions }: Catalog) => new Map(functions.map((each) => [functionObject(each), each])), verb: 'call' },
  ]
  return kinds.flatMap(({ of, verb }) => {
    const [was, is] = [of(before), of(after)]
    const added = [...is].filter(([object]) => !was.has(object))
    const removed = [...was].filter(([object]) => !is.has(object))
    return [
      ...added.map(([object, each]): Found => {
        return { because: [object], effect: 'wider', text: `can ${verb} ${tableName(each)}` }
      }),
      ...removed.map(([object, each]): Found => {
        return { because: [object], effect: 'narrower', text: `can no longer ${verb} ${tableName(each)}` }
      }),
    ]
  })
}

/** Returns the effects of what is no matter of a role. */
function forAll(changed: ReadonlySet<string>, { entries }: State): readonly Found[] {
  return [...changed].flatMap((object): Found[] => {
    const [kind, name] = kindAndName(object)
    const because = [object]
    if (kind === 'enum') {
      return entries.has(object)
        ? [
            {
              because,
              effect: 'wider',
              text: `roles see the values of ${name} where they may use a column that references it`,
            },
          ]
        : [{ because, effect: 'narrower', text: `roles see the values of ${name} only where they may select them` }]
    }
    if (kind !== 'query-template') return []
    const text = entries.has(object)
      ? `the query template ${name} runs with the permissions of its caller, and gives no others`
      : `callers can no longer run the query template ${name}, but the same query if they have the permissions`
    return [{ because, effect: 'same', text }]
  })
}
