import { signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { query } from './api.js'

/** The worst first. */
export const LEVELS = ['error', 'warning', 'info'] as const

/** A likely mistake in the metadata, as `lint_metadata` finds it. */
export interface Finding {
  readonly rule: string
  readonly level: (typeof LEVELS)[number]
  /** Name of the object, e.g. `permission note.user.select`. */
  readonly object: string
  /** Path in the definition of the object. */
  readonly path: string
  readonly message: string
  readonly advice: string
}

interface Lint {
  /** Those of the last check; undefined before the first one ends. */
  readonly findings?: readonly Finding[] | undefined
  /** What each rule finds. */
  readonly rules?: Readonly<Record<string, string>> | undefined
  readonly failure?: unknown
  /** Since when a check runs, in the time of `performance.now()`. */
  readonly since?: number | undefined
}

export const lint = signal<Lint>({})
let checking: AbortController | undefined

/** Finds likely mistakes in permissions and templates, instead of a check that runs. */
export async function checkAll(): Promise<void> {
  stopChecking()
  const { signal: abort } = (checking = new AbortController())
  const { findings, rules } = lint.value
  lint.value = { findings, rules, since: performance.now() }
  try {
    const found = await query<Lint>('lint_metadata', {}, { as: null, signal: abort })
    if (!abort.aborted) lint.value = found
  } catch (failure) {
    if (!abort.aborted) lint.value = { findings, rules, failure }
  }
}

export function stopChecking(): void {
  checking?.abort()
  const { findings, rules } = lint.value
  lint.value = { findings, rules }
}

/** Checks again whenever what a panel shows has changed. */
export function useLint(changed: unknown): void {
  useEffect(() => {
    if (changed === undefined) return undefined
    void checkAll()
    return stopChecking
  }, [changed])
}

/** Returns the findings about objects of the metadata. */
export function findingsAbout(...objects: readonly string[]): readonly Finding[] {
  return (lint.value.findings ?? []).filter(({ object }) => objects.includes(object))
}

/** Returns those that are probably mistakes. */
export const serious = (findings: readonly Finding[]): readonly Finding[] =>
  findings.filter(({ level }) => level !== 'info')

/** `1 finding`, `2 findings` */
export const countText = ({ length }: readonly Finding[]): string => `${length} finding${length === 1 ? '' : 's'}`

/** Returns the class of the colour for the worst of some findings. */
export const colourOf = (findings: readonly Finding[]): string =>
  findings.some(({ level }) => level === 'error') ? 'bad' : serious(findings).length > 0 ? 'odd' : 'soft'
