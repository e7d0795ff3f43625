import { labelOf } from '../../../catalog.js'
import { cut, LINE_PX, type Placed, type PlacedEdge, type PlacedNode, type Point } from './graph.js'

/** Draws placed tables. Colours are variables of the page, so that it suits light and dark. */
export function Drawing({
  placed,
  chosen,
  choose,
  open,
}: {
  readonly placed: Placed
  readonly chosen: string | undefined
  readonly choose: (id: string) => void
  /** Called for a double click, and for Enter on the chosen table. */
  readonly open: (id: string) => void
}) {
  const isNear = ({ from, to }: PlacedEdge) => from === chosen || to === chosen
  const near = new Set(placed.edges.filter(isNear).flatMap(({ from, to }) => [from, to]))
  const isDim = (id: string) => chosen !== undefined && id !== chosen && !near.has(id)
  return (
    <>
      {placed.edges.map((edge) => (
        <EdgeShape key={edge.id} edge={edge} isNear={isNear(edge)} isDim={chosen !== undefined && !isNear(edge)} />
      ))}
      {placed.nodes.map((node) => (
        <g
          key={node.id}
          class="table"
          data-table={node.id}
          role="button"
          tabindex={0}
          aria-pressed={node.id === chosen}
          aria-label={`${node.id}, ${node.table.columns.length} columns`}
          transform={`translate(${round(node.x)} ${round(node.y)})`}
          opacity={isDim(node.id) ? 0.35 : 1}
          onClick={() => choose(node.id)}
          onDblClick={() => open(node.id)}
          onKeyDown={(event) => {
            if (event.key !== 'Enter' && event.key !== ' ') return
            event.preventDefault()
            if (node.id === chosen && event.key === 'Enter') open(node.id)
            else choose(node.id)
          }}
        >
          <NodeShape node={node} isChosen={node.id === chosen} />
        </g>
      ))}
    </>
  )
}

const round = (value: number): number => Math.round(value * 10) / 10

function NodeShape({ node, isChosen }: { readonly node: PlacedNode; readonly isChosen: boolean }) {
  const { width, height, table, lines, more, head } = node
  const isView = table.kind.endsWith('view')
  return (
    <>
      <title>{labelOf(table.table)}</title>
      <rect
        class="frame-of-table"
        width={width}
        height={height}
        rx="6"
        fill="var(--card)"
        stroke={isChosen ? 'var(--brick)' : 'var(--soft)'}
        stroke-width={isChosen ? 2.5 : 1}
        stroke-dasharray={isView ? '5 3' : undefined}
      />
      {lines.length > 0 && <path d={`M0 ${head.height} H${width}`} stroke="var(--line)" stroke-width="1" fill="none" />}
      <text
        x="12"
        y={head.height / 2 + head.fontSize * 0.36}
        fill="var(--ink)"
        font-size={head.fontSize}
        font-weight="600"
      >
        {cut(node.id)}
      </text>
      {lines.map(({ name, type, isPrimary, isLink }, i) => (
        <g key={name} transform={`translate(0 ${head.height + 3 + i * LINE_PX})`} font-size="12">
          <text x="12" y="14" fill={isLink ? 'var(--brick)' : 'var(--ink)'} font-weight={isPrimary ? 600 : 400}>
            {cut(name)}
          </text>
          <text x={width - 12} y="14" text-anchor="end" fill="var(--soft)">
            {cut(type, 16)}
          </text>
        </g>
      ))}
      {more > 0 && (
        <text x="12" y={head.height + 17 + lines.length * LINE_PX} fill="var(--soft)" font-size="12">
          and {more} more
        </text>
      )}
    </>
  )
}

function EdgeShape({
  edge,
  isNear,
  isDim,
}: {
  readonly edge: PlacedEdge
  readonly isNear: boolean
  readonly isDim: boolean
}) {
  const colour = isNear ? 'var(--brick)' : 'var(--soft)'
  const [start, next] = edge.points
  const [before, end] = edge.points.slice(-2)
  return (
    <g opacity={isDim ? 0.15 : 1} stroke={colour} stroke-width={isNear ? 2 : 1.2} fill="none">
      <title>{`${edge.from}.${edge.title} → ${edge.to}`}</title>
      <path d={curve(edge.points)} />
      {edge.isMany && <path d={foot(start!, next!)} />}
      <path d={arrow(before!, end!)} fill={colour} />
    </g>
  )
}

/** Returns a smooth path through points: curves between the middles of its sections. */
function curve(points: readonly Point[]): string {
  const [first, ...rest] = points as [Point, ...Point[]]
  if (rest.length < 2) return `M${at(first)} L${rest.map(at).join(' ')}`
  const parts = rest
    .slice(0, -1)
    .map((point, i) => `Q${at(point)} ${at(i === rest.length - 2 ? rest[i + 1]! : middle(point, rest[i + 1]!))}`)
  return `M${at(first)} ${parts.join(' ')}`
}

const at = ({ x, y }: Point): string => `${round(x)} ${round(y)}`
const middle = (a: Point, b: Point): Point => ({ x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 })

/** Returns a point at a distance along and across the direction from one point to another. */
function beside(from: Point, to: Point, along: number, across: number): Point {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1
  const [dx, dy] = [(to.x - from.x) / length, (to.y - from.y) / length]
  return { x: from.x + dx * along - dy * across, y: from.y + dy * along + dx * across }
}

/** The three toes at the end with many rows. */
const foot = (start: Point, next: Point): string => {
  const ankle = at(beside(start, next, 10, 0))
  return `M${at(beside(start, next, 0, 5))} L${ankle} L${at(beside(start, next, 0, -5))}`
}

const arrow = (before: Point, end: Point): string =>
  `M${at(end)} L${at(beside(end, before, 8, 3.5))} L${at(beside(end, before, 8, -3.5))} Z`
