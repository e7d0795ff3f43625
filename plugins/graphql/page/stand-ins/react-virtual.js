/** In place of `@tanstack/react-virtual`: the lists of GraphiQL are short, and no part of it turns this on. */
export function useVirtualizer() {
  throw new Error('lists are not virtual here')
}
