import t from 'tap'
import { filesOf } from '../files.js'
import type { Area } from '../kit/promises.js'
import { AREAS } from './areas.js'
import { API_PAGES, sectionsOf } from './pages.js'

const all: readonly Area[] = Object.values(AREAS).flat()

for (const page of API_PAGES) {
  t.test(`each row of a table and each "must" of ${page} is a promise with an id`, async (t) => {
    const sections = sectionsOf(page)
    const given = all.flatMap(({ pages }) => Object.entries(pages[page] ?? {}))
    const promised = new Set(given.flatMap(([heading, rows]) => Object.keys(rows).map((row) => `${heading}: ${row}`)))
    const written = new Set(sections.flatMap(({ heading, rows }) => rows.map((row) => `${heading}: ${row}`)))

    t.same(
      [...written].filter((row) => !promised.has(row)),
      [],
      'nothing is without a promise',
    )
    t.same(
      [...promised].filter((row) => !written.has(row)),
      [],
      'no promise is of what the page says no more',
    )
  })
}

t.test('what pages name are promises of their area, and no two areas or ids have one name', async (t) => {
  for (const { name, promises, pages } of all) {
    const named = Object.values(pages)
      .flatMap((headings) => Object.values(headings).flatMap(Object.values))
      .flat()
    t.same(
      named.filter((id) => !Object.hasOwn(promises, String(id))),
      [],
      name,
    )
  }
  const ids = all.flatMap(({ name, promises }) => Object.keys(promises).map((id) => `${name}/${id}`))
  t.equal(new Set(ids).size, ids.length)
})

t.test('each group of areas has a file that proves it', async (t) => {
  const files = filesOf('promises').filter((file) => !file.endsWith('/pages.test.js'))
  t.same(
    files,
    Object.keys(AREAS)
      .map((group) => `build/test/promises/${group}.test.js`)
      .toSorted(),
  )
})
