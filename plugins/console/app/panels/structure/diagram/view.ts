import type { RefObject } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { Placed, Point } from './graph.js'

/** Where the drawing is: its point at the top left, moved by `x` and `y` and scaled by `scale`. */
interface View extends Point {
  readonly scale: number
}

const LEAST = 0.05
const MOST = 3
/** Few tables are not blown up further. */
const LARGEST_FIT = 1.2
const MARGIN = 24
const STEP = 1.25

interface Moves {
  readonly view: View
  zoom(factor: number): void
  fit(): void
  /** Moves a part of the drawing into view. */
  show(part: Point & { readonly width: number; readonly height: number }): void
  onKeyDown(event: KeyboardEvent): void
}

/** Moves and scales a drawing by pointers, the wheel and keys. */
export function useView(box: RefObject<HTMLElement | null>, placed: Placed | undefined): Moves {
  const [view, setView] = useState<View>({ x: 0, y: 0, scale: 1 })
  const pointers = useRef(new Map<number, Point>())

  const fit = () => {
    if (!box.current || !placed) return
    const { clientWidth, clientHeight } = box.current
    const room = Math.min((clientWidth - 2 * MARGIN) / placed.width, (clientHeight - 2 * MARGIN) / placed.height)
    const scale = Math.min(LARGEST_FIT, Math.max(LEAST, room))
    setView({ scale, x: (clientWidth - placed.width * scale) / 2, y: (clientHeight - placed.height * scale) / 2 })
  }
  const zoomAt = (point: Point, factor: number) =>
    setView((now) => {
      const scale = Math.min(MOST, Math.max(LEAST, now.scale * factor))
      const by = scale / now.scale
      return { scale, x: point.x - (point.x - now.x) * by, y: point.y - (point.y - now.y) * by }
    })
  const zoom = (factor: number) => {
    const { clientWidth = 0, clientHeight = 0 } = box.current ?? {}
    zoomAt({ x: clientWidth / 2, y: clientHeight / 2 }, factor)
  }
  const pan = (x: number, y: number) => setView((now) => ({ ...now, x: now.x + x, y: now.y + y }))

  useEffect(fit, [placed])

  useEffect(() => {
    const target = box.current
    if (!target) return
    const place = ({ clientX, clientY }: MouseEvent): Point => {
      const { left, top } = target.getBoundingClientRect()
      return { x: clientX - left, y: clientY - top }
    }
    const onWheel = (event: WheelEvent) => {
      event.preventDefault()
      const pixels = event.deltaY * (event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1)
      zoomAt(place(event), Math.exp(-pixels * (event.ctrlKey ? 0.01 : 0.0015)))
    }
    const onDown = (event: PointerEvent) => void pointers.current.set(event.pointerId, place(event))
    const onMove = (event: PointerEvent) => {
      const known = pointers.current
      const was = known.get(event.pointerId)
      if (!was) return
      const is = place(event)
      const [other] = [...known].flatMap(([id, point]) => (id === event.pointerId ? [] : [point]))
      if (other) {
        const middle = { x: (is.x + other.x) / 2, y: (is.y + other.y) / 2 }
        zoomAt(middle, distance(is, other) / (distance(was, other) || 1))
        pan((is.x - was.x) / 2, (is.y - was.y) / 2)
      } else {
        // A click that trembles is still a click.
        if (!target.hasPointerCapture(event.pointerId)) {
          if (distance(was, is) < 4) return
          target.setPointerCapture(event.pointerId)
        }
        pan(is.x - was.x, is.y - was.y)
      }
      known.set(event.pointerId, is)
    }
    const onUp = (event: PointerEvent) => void pointers.current.delete(event.pointerId)
    target.addEventListener('wheel', onWheel, { passive: false })
    target.addEventListener('pointerdown', onDown)
    target.addEventListener('pointermove', onMove)
    target.addEventListener('pointerup', onUp)
    target.addEventListener('pointercancel', onUp)
    return () => {
      target.removeEventListener('wheel', onWheel)
      target.removeEventListener('pointerdown', onDown)
      target.removeEventListener('pointermove', onMove)
      target.removeEventListener('pointerup', onUp)
      target.removeEventListener('pointercancel', onUp)
    }
  }, [placed !== undefined])

  const show: Moves['show'] = ({ x, y, width, height }) =>
    setView((now) => {
      const { clientWidth = 0, clientHeight = 0 } = box.current ?? {}
      const into = (start: number, size: number, room: number) =>
        start < MARGIN ? MARGIN - start : Math.min(0, room - MARGIN - size - start)
      return {
        ...now,
        x: now.x + into(now.x + x * now.scale, width * now.scale, clientWidth),
        y: now.y + into(now.y + y * now.scale, height * now.scale, clientHeight),
      }
    })
  const onKeyDown = (event: KeyboardEvent) => {
    const moves: Readonly<Record<string, () => void>> = {
      ArrowLeft: () => pan(60, 0),
      ArrowRight: () => pan(-60, 0),
      ArrowUp: () => pan(0, 60),
      ArrowDown: () => pan(0, -60),
      '+': () => zoom(STEP),
      '=': () => zoom(STEP),
      '-': () => zoom(1 / STEP),
      '0': fit,
    }
    const move = event.ctrlKey || event.metaKey ? undefined : moves[event.key]
    if (!move) return
    event.preventDefault()
    move()
  }
  return { view, zoom, fit, show, onKeyDown }
}

const distance = (a: Point, b: Point): number => Math.hypot(a.x - b.x, a.y - b.y)
