import { createContext, createElement, forwardRef, useContext, useRef } from 'react'

/** In place of framer-motion: GraphiQL only uses it for tabs that can be dragged to another place. */
export const Reorder = { Group: forwardRef(Group), Item: forwardRef(Item) }

const Drag = createContext(undefined)

function Group({ values, onReorder, axis, ...props }, ref) {
  const dragged = useRef()
  const drop = (target) => {
    const rest = values.filter((value) => value !== dragged.current)
    if (rest.length === values.length || dragged.current === target) return
    const at = values.indexOf(target)
    onReorder([...rest.slice(0, at), dragged.current, ...rest.slice(at)])
  }
  const list = { 'aria-orientation': axis === 'x' ? 'horizontal' : 'vertical', ...props, ref }
  return createElement(Drag.Provider, { value: { dragged, drop } }, createElement('ul', list))
}

function Item({ value, ...props }, ref) {
  const { dragged, drop } = useContext(Drag)
  const onDragStart = (event) => {
    dragged.current = value
    // Firefox drags nothing without data.
    event.dataTransfer.setData('text/plain', '')
  }
  const onDrop = (event) => {
    event.preventDefault()
    drop(value)
  }
  const handlers = { onDragStart, onDragOver: (event) => event.preventDefault(), onDrop }
  return createElement('li', { ...props, ...handlers, draggable: true, ref })
}
