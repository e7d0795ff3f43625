import { definePlugin } from 'rowhouse'

export interface Greeter {
  greet(name: string): string
}
declare module 'rowhouse' {
  interface Services {
    greeter: Greeter
  }
}

/** A plugin that keeps its promise: it compiles. */
export default definePlugin({
  name: 'greeter',
  config: { type: 'object', properties: { word: { type: 'string', default: 'Hello' } } },
  setup: (_host, { word }) => ({ greet: (name) => `${word}, ${name}` }),
})
