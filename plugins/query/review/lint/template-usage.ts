import type { Call, Operations } from 'rowhouse'
import type { JsonObject } from 'rowhouse/plan'

/** What the plugin `template` tells about a template. */
export interface TemplateUsage {
  readonly name: string
  readonly roles: readonly string[]
  readonly calls: number
  readonly total_ms: number
  /** Arguments to plan it with, or null. */
  readonly example: JsonObject | null
}

/** Returns the templates, none without the plugin. */
export async function readTemplateUsage(operations: Operations, call: Call): Promise<readonly TemplateUsage[]> {
  if (!operations.get('template_usage')) return []
  const answer = await operations.run({ type: 'template_usage', args: {} }, call)
  if (answer.kind !== 'text') throw new Error('expected text')
  return (JSON.parse(answer.text) as { readonly templates: readonly TemplateUsage[] }).templates
}
