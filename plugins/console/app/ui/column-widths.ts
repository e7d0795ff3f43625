import { useState } from 'preact/hooks'

/** In pixels. */
const NARROWEST = 40

/** Returns the widths of columns that somebody chose, in pixels, which the tab of the browser keeps, and how to change one. */
export function useColumnWidths(label: string) {
  const saved = `rowhouse-widths-${label}`
  const [widths, setWidths] = useState(() => new Map<string, number>(JSON.parse(sessionStorage.getItem(saved) ?? '[]')))
  const resize = (column: string, width: number) => {
    const next = new Map(widths).set(column, Math.max(NARROWEST, Math.round(width)))
    sessionStorage.setItem(saved, JSON.stringify([...next]))
    setWidths(next)
  }
  return { widths, resize }
}

/** Follows the pointer from where it is pressed until it is released. */
export function drag(event: PointerEvent, onMove: (pixels: number) => void): void {
  const grip = event.currentTarget as HTMLElement
  event.preventDefault()
  grip.setPointerCapture(event.pointerId)
  grip.onpointermove = ({ clientX }) => onMove(clientX - event.clientX)
  grip.onlostpointercapture = () => (grip.onpointermove = null)
}
