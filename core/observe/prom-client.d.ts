/** A part of the library, which has no types of its own. */
declare module 'prom-client/lib/*.js' {
  const part: unknown
  export default part
}
