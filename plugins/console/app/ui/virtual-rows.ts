import {
  elementScroll,
  observeElementOffset,
  observeElementRect,
  Virtualizer,
  type VirtualItem,
} from '@tanstack/virtual-core'
import type { RefObject } from 'preact'
import { useLayoutEffect, useReducer, useRef } from 'preact/hooks'

/** The rows that are in view. */
interface VirtualRows {
  readonly items: readonly VirtualItem[]
  /** Height of all rows, in pixels. */
  readonly height: number
  scrollTo(index: number): void
}

/**
 * Finds the rows of a list that are in view, so that only they are rendered.
 * @param rowHeight in pixels, the same for all rows
 * @param top height of what stays above the rows, in pixels
 */
export function useVirtualRows(
  scroller: RefObject<HTMLElement | null>,
  count: number,
  rowHeight: number,
  top: number,
): VirtualRows {
  const [, rerender] = useReducer((n: number) => n + 1, 0)
  const options = {
    count,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    overscan: 12,
    paddingStart: 0,
    scrollPaddingStart: top,
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    onChange: rerender,
  }
  const made = useRef<Virtualizer<HTMLElement, Element>>(undefined)
  const rows = (made.current ??= new Virtualizer<HTMLElement, Element>(options))
  rows.setOptions(options)
  useLayoutEffect(() => rows._didMount(), [rows])
  useLayoutEffect(() => rows._willUpdate())
  return {
    items: rows.getVirtualItems(),
    height: rows.getTotalSize(),
    scrollTo: (index) => rows.scrollToIndex(index, { align: 'auto' }),
  }
}
