import type { Answer } from 'rowhouse'

/** What every successful metadata operation answers. */
export const done: Answer = { kind: 'text', text: '{"message":"success"}' }
