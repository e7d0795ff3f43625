/**
 * A JSON document that may be no JSON any more: keys may repeat, and a leaf is whatever text stands there.
 */
export type Tree =
  | { readonly kind: 'object'; readonly entries: readonly (readonly [key: string, value: Tree])[] }
  | { readonly kind: 'array'; readonly items: readonly Tree[] }
  | { readonly kind: 'leaf'; readonly text: string }

export function treeOf(value: unknown): Tree {
  if (Array.isArray(value)) return { kind: 'array', items: value.map(treeOf) }
  if (typeof value !== 'object' || value === null) return { kind: 'leaf', text: JSON.stringify(value) }
  return { kind: 'object', entries: Object.entries(value).map(([key, each]) => [JSON.stringify(key), treeOf(each)]) }
}

export function print(tree: Tree): string {
  switch (tree.kind) {
    case 'object':
      return `{${tree.entries.map(([key, value]) => `${key}:${print(value)}`).join()}}`
    case 'array':
      return `[${tree.items.map(print).join()}]`
    case 'leaf':
      return tree.text
  }
}

/** What is done to one place of a document. Keys and leaves are JSON texts. */
export type Mutation =
  | { readonly kind: 'replace'; readonly text: string }
  | { readonly kind: 'rename'; readonly key: string }
  | { readonly kind: 'add'; readonly key: string; readonly text: string }
  | { readonly kind: 'remove' }
  | { readonly kind: 'repeat'; readonly times: number }
  | { readonly kind: 'wrap'; readonly open: string; readonly close: string }

/** @param place any natural number: places are counted through, the root not included */
export function mutate(tree: Tree, place: number, mutation: Mutation): Tree {
  const places = count(tree) - 1
  if (places <= 0) return { kind: 'leaf', text: 'text' in mutation ? mutation.text : '[]' }
  let left = place % places

  function walk(node: Tree): Tree {
    if (node.kind === 'leaf') return node
    if (node.kind === 'array') return { kind: 'array', items: node.items.flatMap((item) => visit('""', item, values)) }
    return { kind: 'object', entries: node.entries.flatMap(([key, value]) => visit(key, value, entries)) }
  }
  function visit<T>(key: string, value: Tree, as: (changed: readonly [string, Tree][]) => T[]): T[] {
    return left-- === 0 ? as(changed(key, value, mutation)) : as([[key, walk(value)]])
  }
  return walk(tree)
}

const values = (changed: readonly [string, Tree][]): Tree[] => changed.map(([, value]) => value)
const entries = (changed: readonly [string, Tree][]): (readonly [string, Tree])[] => [...changed]

function changed(key: string, value: Tree, mutation: Mutation): [string, Tree][] {
  switch (mutation.kind) {
    case 'replace':
      return [[key, { kind: 'leaf', text: mutation.text }]]
    case 'rename':
      return [[mutation.key, value]]
    case 'add':
      return [
        [key, value],
        [mutation.key, { kind: 'leaf', text: mutation.text }],
      ]
    case 'remove':
      return []
    case 'repeat':
      return Array.from({ length: mutation.times }, () => [key, value])
    case 'wrap':
      return [[key, { kind: 'leaf', text: `${mutation.open}${print(value)}${mutation.close}` }]]
  }
}

function count(tree: Tree): number {
  switch (tree.kind) {
    case 'object':
      return tree.entries.reduce((sum, [, value]) => sum + count(value), 1)
    case 'array':
      return tree.items.reduce((sum, item) => sum + count(item), 1)
    case 'leaf':
      return 1
  }
}
