import type { Schema } from './schema.js'

const builders = <const More extends object>(more: More) => ({
  /** A whole number from 1. */
  count: (fallback: number, description: string) =>
    ({ type: 'integer', minimum: 1, default: fallback, description, ...more }) as const,
  /** A whole number from 0. */
  amount: (fallback: number, description: string) =>
    ({ type: 'integer', minimum: 0, default: fallback, description, ...more }) as const,
  /** From 0 to an hour. */
  milliseconds: (fallback: number, description: string) =>
    ({ type: 'integer', minimum: 0, maximum: 3_600_000, default: fallback, description, ...more }) as const,
  /** From 0 to 1. */
  share: (fallback: number, description: string) =>
    ({ type: 'number', minimum: 0, maximum: 1, default: fallback, description, ...more }) as const,
  /** A text that is not empty, and has no default. */
  text: (description: string) => ({ type: 'string', minLength: 1, description, ...more }) as const,
  choice: <const Values extends readonly string[]>(values: Values, fallback: Values[number], description: string) =>
    ({ type: 'string', enum: values, default: fallback, description, ...more }) as const,
  /** Settings that belong together. */
  section: <const Properties extends Readonly<Record<string, Schema>>>(description: string, properties: Properties) =>
    ({ type: 'object', properties, default: {}, description, ...more }) as const,
  flag: (fallback: boolean, description: string) =>
    ({ type: 'boolean', default: fallback, description, ...more }) as const,
})

/**
 * Schemas of common settings, by their default and their description.
 * @example properties: { keepDays: setting.count(30, 'Days to keep notes for.') }
 */
export const setting = {
  ...builders({}),
  /** Those that few servers change. */
  advanced: builders({ advanced: true }),
}
