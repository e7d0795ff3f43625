import { Graph, layout } from '@dagrejs/dagre'
import type { Edge, Node, Placed, PlacedEdge, PlacedNode, Point } from './graph.js'

/** Pixels between tables, and between the parts of the diagram that no relationship connects. */
const GAP = 28
const BETWEEN_RANKS = { LR: 80, TB: 48 } as const
const BETWEEN_PARTS = 56

/** Places tables so that relationships lead in one direction. Only `diagram/index.tsx` imports this, because it is large. */
export function place(nodes: readonly Node[], edges: readonly Edge[]): Placed {
  const parts = partsOf(nodes, edges)
  const connected = parts.filter((part) => part.length > 1).map((part) => bestOf(part, edges))
  const alone = parts.flatMap((part) => (part.length === 1 ? part : []))
  return pack([...connected, ...alone.map(alonePart)])
}

/** Returns the nodes in groups that edges connect, the largest group first. */
function partsOf(nodes: readonly Node[], edges: readonly Edge[]): readonly (readonly Node[])[] {
  const parents = new Map(nodes.map(({ id }) => [id, id]))
  const root = (id: string): string => {
    const parent = parents.get(id) ?? id
    return parent === id ? id : root(parent)
  }
  for (const { from, to } of edges) parents.set(root(from), root(to))
  const parts = new Map<string, Node[]>()
  for (const node of nodes) {
    const part = parts.get(root(node.id)) ?? []
    parts.set(root(node.id), [...part, node])
  }
  return [...parts.values()].toSorted((a, b) => b.length - a.length)
}

const alonePart = (node: Node): Placed => ({
  nodes: [{ ...node, x: 0, y: 0 }],
  edges: [],
  width: node.width,
  height: node.height,
})

/** Places connected tables from left to right or from top to bottom, whichever fits better on a screen. */
function bestOf(nodes: readonly Node[], edges: readonly Edge[]): Placed {
  const across = placePart(nodes, edges, 'LR')
  if (nodes.length < FEW || nodes.length > VERY_MANY) return across
  const down = placePart(nodes, edges, 'TB')
  return sizeOf(across) <= sizeOf(down) ? across : down
}
const FEW = 8
const VERY_MANY = 400

function placePart(nodes: readonly Node[], edges: readonly Edge[], rankdir: keyof typeof BETWEEN_RANKS): Placed {
  const graph = new Graph({ multigraph: true })
  graph.setGraph({ rankdir, nodesep: GAP, ranksep: BETWEEN_RANKS[rankdir], edgesep: 12, ranker: 'network-simplex' })
  graph.setDefaultEdgeLabel(() => ({}))
  for (const { id, width, height } of nodes) graph.setNode(id, { width, height })
  const ids = new Set(nodes.map(({ id }) => id))
  const own = edges.filter(({ from, to }) => ids.has(from) && ids.has(to))
  for (const { id, from, to } of own) if (from !== to) graph.setEdge(from, to, {}, id)
  layout(graph)
  const { width = 0, height = 0 } = graph.graph() as { readonly width?: number; readonly height?: number }
  const placed = nodes.map((node): PlacedNode => {
    const { x, y } = graph.node(node.id) as { readonly x: number; readonly y: number }
    return { ...node, x: x - node.width / 2, y: y - node.height / 2 }
  })
  return {
    nodes: placed,
    edges: own.map((edge) => {
      const points =
        edge.from === edge.to
          ? loop(placed.find(({ id }) => id === edge.from)!)
          : (graph.edge(edge.from, edge.to, edge.id) as { readonly points: PlacedEdge['points'] }).points
      return { ...edge, points }
    }),
    width,
    height,
  }
}

/** The way of a relationship of a table with itself. */
function loop({ x, y, width }: PlacedNode): PlacedEdge['points'] {
  const right = x + width
  return [
    { x: right, y: y + 14 },
    { x: right + 26, y: y + 14 },
    { x: right + 26, y: y - 14 },
    { x: right - 24, y: y - 14 },
    { x: right - 24, y },
  ]
}

/** Puts parts beside each other so that the whole fits best on a screen. */
function pack(parts: readonly Placed[]): Placed {
  const byHeight = parts.toSorted((a, b) => b.height - a.height)
  const area = parts.reduce((sum, { width, height }) => sum + (width + BETWEEN_PARTS) * (height + BETWEEN_PARTS), 0)
  const least = Math.max(...parts.map(({ width }) => width), Math.sqrt(area * RATIO))
  const tries = [1, 1.15, 1.3, 1.5, 1.75, 2].map((factor) => packInto(byHeight, least * factor))
  return tries.reduce((best, each) => (sizeOf(each) < sizeOf(best) ? each : best))
}

/**
 * Fills rows of columns: a part goes below the one before if the row is high enough.
 * @param parts the highest first
 * @param most width of a row
 */
function packInto(parts: readonly Placed[], most: number): Placed {
  const nodes: PlacedNode[] = []
  const edges: PlacedEdge[] = []
  let row = { y: 0, height: 0 }
  let column = { x: 0, width: 0, bottom: 0 }
  let widest = 0
  for (const part of parts) {
    if (column.bottom > 0 && column.bottom + part.height > row.height) {
      column = { x: column.x + column.width + BETWEEN_PARTS, width: 0, bottom: 0 }
      if (column.x + part.width > most) {
        row = { y: row.y + row.height + BETWEEN_PARTS, height: 0 }
        column = { x: 0, width: 0, bottom: 0 }
      }
    }
    const { x } = column
    const y = row.y + column.bottom
    const move = <T extends Point>(point: T): T => ({ ...point, x: point.x + x, y: point.y + y })
    nodes.push(...part.nodes.map(move))
    edges.push(...part.edges.map((edge) => ({ ...edge, points: edge.points.map(move) })))
    row = { ...row, height: Math.max(row.height, part.height) }
    column = { x, width: Math.max(column.width, part.width), bottom: column.bottom + part.height + BETWEEN_PARTS }
    widest = Math.max(widest, x + column.width)
  }
  return { nodes, edges, width: widest, height: row.y + row.height }
}

/** Tells how small a drawing must be shown to fit on a screen. */
const sizeOf = ({ width, height }: Placed): number => Math.max(width / RATIO, height)
/** Of width to height. */
const RATIO = 1.6
