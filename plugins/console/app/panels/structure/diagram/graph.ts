import { type Column, labelOf, type Relationship, type Table } from '../../../catalog.js'

/** How much of a table the diagram shows. */
export type Detail = 'names' | 'keys' | 'columns'

interface Line {
  readonly name: string
  readonly type: string
  readonly isPrimary: boolean
  /** Whether a relationship leads from it. */
  readonly isLink: boolean
}
export interface Node {
  readonly id: string
  readonly table: Table
  readonly lines: readonly Line[]
  /** Lines that are left out. */
  readonly more: number
  readonly head: Head
  readonly width: number
  readonly height: number
}
/** A relationship to one row, or to many rows that has no other in the opposite direction. */
export interface Edge {
  readonly id: string
  readonly from: string
  readonly to: string
  readonly title: string
  /** Whether many rows of `from` belong to one row of `to`. */
  readonly isMany: boolean
}
export interface Point {
  readonly x: number
  readonly y: number
}
export interface PlacedNode extends Node, Point {}
export interface PlacedEdge extends Edge {
  readonly points: readonly Point[]
}
export interface Placed {
  readonly nodes: readonly PlacedNode[]
  readonly edges: readonly PlacedEdge[]
  readonly width: number
  readonly height: number
}

/** The line with the name of a table. */
interface Head {
  readonly height: number
  readonly fontSize: number
}
const HEAD: Head = { height: 30, fontSize: 14 }
/** Larger, because many tables with names only are seen from afar. */
const LARGE_HEAD: Head = { height: 38, fontSize: 19 }
export const LINE_PX = 20
const MOST_LINES = 24
const MOST_CHARACTERS = 30
const CHARACTER_PX = 7.3

/** Shortens a text to what fits into a table of the diagram. */
export const cut = (text: string, most = MOST_CHARACTERS): string => {
  const characters = Array.from(text)
  return characters.length <= most ? text : `${characters.slice(0, most - 1).join('')}…`
}

const lengthOf = (text: string): number => Array.from(text).length

export function graphOf(
  tables: readonly Table[],
  detail: Detail,
): { readonly nodes: readonly Node[]; readonly edges: readonly Edge[] } {
  const links = edgesOf(tables)
  return { nodes: tables.map((table) => nodeOf(table, detail)), edges: links }
}

function nodeOf(table: Table, detail: Detail): Node {
  const links = new Set(
    table.relationships.flatMap(({ type, columns }) => (type === 'object' ? Object.keys(columns ?? {}) : [])),
  )
  const toLine = ({ name, type }: Column): Line => ({
    name,
    type,
    isPrimary: table.primary_key.includes(name),
    isLink: links.has(name),
  })
  const all = detail === 'names' ? [] : table.columns.map(toLine)
  const wanted = detail === 'keys' ? all.filter(({ isPrimary, isLink }) => isPrimary || isLink) : all
  const lines = wanted.slice(0, MOST_LINES)
  const more = wanted.length - lines.length
  const id = labelOf(table.table)
  const head = detail === 'names' ? LARGE_HEAD : HEAD
  const widest = Math.max(
    lengthOf(cut(id)) * (head.fontSize / 11),
    ...lines.map(({ name, type }) => lengthOf(cut(name)) + lengthOf(cut(type, 16)) + 4),
  )
  return {
    id,
    table,
    lines,
    more,
    head,
    width: Math.max(96, Math.ceil(widest * CHARACTER_PX) + 24),
    height: head.height + (lines.length + (more > 0 ? 1 : 0)) * LINE_PX + (lines.length > 0 ? 6 : 0),
  }
}

function edgesOf(tables: readonly Table[]): readonly Edge[] {
  const ids = new Set(tables.map(({ table }) => labelOf(table)))
  const found = new Map<string, Edge>()
  const add = (table: Table, { type, name, columns = {} }: Relationship, remote: string) => {
    const own = labelOf(table.table)
    const pairs = Object.entries(columns)
    const back = pairs.map(([here, there]) => [there, here] as const)
    const isOne = type === 'object'
    const [from, to, joins] = isOne ? [own, remote, pairs] : [remote, own, back]
    const id = idOf(from, to, joins)
    // A relationship between two unique keys has one row at both ends.
    if (found.has(id) || found.has(idOf(to, from, isOne ? back : pairs))) return
    const isUnique = table.unique.some((key) => key.columns.every((column) => Object.hasOwn(columns, column)))
    found.set(id, { id, from, to, title: name, isMany: !isOne || !isUnique })
  }
  for (const type of ['object', 'array'] as const) {
    for (const table of tables) {
      for (const each of table.relationships) {
        const to = labelOf(each.table)
        if (each.type === type && ids.has(to)) add(table, each, to)
      }
    }
  }
  return [...found.values()]
}

/** Identifies a relationship by the columns that it joins. */
const idOf = (from: string, to: string, pairs: readonly (readonly [string, string])[]): string =>
  JSON.stringify([from, to, pairs.map((pair) => pair.join('\0')).toSorted()])
