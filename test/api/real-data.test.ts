import { createRequire } from 'node:module'
import t from 'tap'
import { testServer } from '../kit/server.js'

/** A data set that we did not write: the npm package `world-countries`. */
interface Country {
  readonly cca3: string
  readonly name: { readonly common: string }
  readonly region: string
  readonly subregion: string
  readonly area: number
  readonly landlocked: boolean
  readonly capital: readonly string[]
  readonly borders: readonly string[]
  readonly languages: Readonly<Record<string, string>>
  readonly latlng: readonly number[]
}
const countries = createRequire(import.meta.url)('world-countries') as readonly Country[]

const SCHEMA = `
create table region (name text primary key);
create table country (code char(3) primary key, name text not null unique, region text not null references region,
  subregion text, area numeric not null, landlocked boolean not null, capitals text[] not null, place jsonb not null);
create table language (code text primary key, name text not null);
create table speaks (country char(3) references country, language text references language, primary key (country, language));
create table border (country char(3) references country, neighbour char(3) references country, primary key (country, neighbour))`

t.test('the countries of the world go in and come out again as they were', async (t) => {
  const server = await testServer(t, { threads: 1 })
  await server.must('run_sql', { sql: SCHEMA })
  const toOne = (table: string, name: string, column: string) => ({
    type: 'create_object_relationship',
    args: { table, name, using: { foreign_key_constraint_on: column } },
  })
  const toMany = (table: string, name: string, other: string, column: string) => ({
    type: 'create_array_relationship',
    args: { table, name, using: { foreign_key_constraint_on: { table: other, column } } },
  })
  const languages = new Map(countries.flatMap((country) => Object.entries(country.languages)))
  const rows = (table: string, objects: readonly object[]) => ({ type: 'insert', args: { table, objects } })

  const answers = await server.must('bulk', [
    ...['region', 'country', 'language', 'speaks', 'border'].map((table) => ({ type: 'track_table', args: table })),
    toMany('region', 'countries', 'country', 'region'),
    toMany('country', 'speaks', 'speaks', 'country'),
    toMany('country', 'borders', 'border', 'country'),
    toMany('language', 'spoken', 'speaks', 'language'),
    toOne('speaks', 'in', 'country'),
    toOne('speaks', 'what', 'language'),
    toOne('border', 'with', 'neighbour'),
    ...['country', 'border'].map((table) => ({
      type: 'create_select_permission',
      args: {
        table,
        role: 'islander',
        permission: { columns: '*', filter: table === 'country' ? { $not: { borders: {} } } : {} },
      },
    })),
    rows(
      'region',
      [...new Set(countries.map(({ region }) => region))].map((name) => ({ name })),
    ),
    rows(
      'country',
      countries.map(({ cca3, name, region, subregion, area, landlocked, capital, latlng }) => ({
        code: cca3,
        name: name.common,
        region,
        subregion,
        area,
        landlocked,
        capitals: capital,
        place: { latlng },
      })),
    ),
    rows(
      'language',
      [...languages].map(([code, name]) => ({ code, name })),
    ),
    rows(
      'speaks',
      countries.flatMap(({ cca3, languages: own }) =>
        Object.keys(own).map((language) => ({ country: cca3, language })),
      ),
    ),
    rows(
      'border',
      countries.flatMap(({ cca3, borders }) => borders.map((neighbour) => ({ country: cca3, neighbour }))),
    ),
  ])
  t.equal(answers.at(-4).affected_rows, countries.length)

  const count = async (table: string, where: object = {}) =>
    (await server.must('count', { table, where })).count as number
  t.equal(await count('language'), languages.size)
  t.equal(
    await count('border'),
    countries.reduce((sum, { borders }) => sum + borders.length, 0),
  )
  t.equal(
    await count('country', { landlocked: true, region: 'Europe' }),
    countries.filter((each) => each.landlocked && each.region === 'Europe').length,
  )
  t.equal(
    await count('country', { speaks: { what: { name: 'French' } } }),
    countries.filter(({ languages: own }) => Object.values(own).includes('French')).length,
  )

  const stored = await server.must('select', {
    table: 'country',
    columns: ['code', 'name', 'area', 'capitals', 'place'],
    order_by: ['code'],
  })
  const source = [...countries]
    .sort((a, b) => (a.cca3 < b.cca3 ? -1 : 1))
    .map(({ cca3, name, area, capital, latlng }) => ({
      code: cca3,
      name: name.common,
      area,
      capitals: capital,
      place: { latlng },
    }))
  t.same(stored, source)

  const austria = await server.must('select', {
    table: 'country',
    columns: [
      'name',
      'capitals',
      { name: 'borders', columns: [{ name: 'with', columns: ['name', 'landlocked'] }], order_by: ['+with.name'] },
    ],
    where: { capitals: { $contains: ['Vienna'] } },
  })
  const around = ['Czechia', 'Germany', 'Hungary', 'Italy', 'Liechtenstein', 'Slovakia', 'Slovenia', 'Switzerland']
  t.same(
    austria[0].borders.map(({ with: other }: { with: { name: string } }) => other.name),
    around,
  )
  // A country whose neighbours are all landlocked: Liechtenstein and Uzbekistan, as every quiz has it.
  const doubly = await server.must('select', {
    table: 'country',
    columns: ['name'],
    where: { landlocked: true, borders: {}, $not: { borders: { with: { landlocked: false } } } },
    order_by: ['name'],
  })
  t.same(doubly, [{ name: 'Liechtenstein' }, { name: 'Uzbekistan' }])

  const islands = await server.query('count', { table: 'country' }, { role: 'islander' })
  t.same(islands.body, { count: countries.filter(({ borders }) => borders.length === 0).length })
})
