/** The command was called in a way that it does not know: exit code 2. What a server or a file says is no such error. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}
