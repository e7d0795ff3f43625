import type { Data } from 'rowhouse'
import type { Content, Parsed, Rendered, Source } from './render.js'

/** A template as a client sends it. */
export interface TemplateInput extends Source {
  readonly comment: string | null
}

/** A row of `svc_catalog.svc_mail_template`. */
export interface MailTemplate extends TemplateInput {
  readonly name: string
  readonly created_at: string
  readonly updated_at: string
}

type TemplateSummary = Pick<MailTemplate, 'name' | 'subject' | 'comment' | 'created_at' | 'updated_at'>

export const TEMPLATE_NAME = /^[A-Za-z0-9_.-]{1,64}$/
/** Maximum number of parsed templates in the cache. */
const MAX_CACHED = 200

const TIMES = `pg_catalog.to_json(created_at) as created_at, pg_catalog.to_json(updated_at) as updated_at`
const ROW = `name, subject, text, html, comment, ${TIMES}`

/** Parses a template, like `parseTemplate`. Loads Liquid on first use, because many servers have no mail templates. */
export async function parse(source: Source, of?: string): Promise<Parsed> {
  const { parseTemplate } = await import('./render.js')
  return parseTemplate(source, of)
}

/** Stores and renders mail templates. All servers see a change immediately. */
export class MailTemplates {
  private readonly cache = new Map<string, { readonly source: Source; readonly parsed: Parsed }>()

  constructor(private readonly data: Data) {}

  /**
   * Renders a template.
   * @param content values by the names of variables; values that the template does not use are ignored
   * @returns undefined when there is no such template
   * @throws ServiceError 400 `invalid_payload` that names a variable without a value
   */
  async render(name: string, content: readonly Content[]): Promise<Rendered | undefined> {
    const stored = await this.find(name)
    return stored && (await this.parsed(stored))(content)
  }

  async list(): Promise<readonly TemplateSummary[]> {
    return this.data.query<TemplateSummary>(
      `select name, subject, comment, ${TIMES} from svc_catalog.svc_mail_template order by name`,
    )
  }

  async find(name: string): Promise<MailTemplate | undefined> {
    if (!TEMPLATE_NAME.test(name)) return undefined
    const [row] = await this.data.query<MailTemplate>(
      `select ${ROW} from svc_catalog.svc_mail_template where name = $1`,
      [name],
    )
    return row
  }

  /** Stores a template, or replaces the one of that name. The caller has checked that it can be parsed. */
  async put(name: string, { subject, text, html, comment }: TemplateInput): Promise<MailTemplate> {
    const [row] = await this.data.query<MailTemplate>(
      `insert into svc_catalog.svc_mail_template (name, subject, text, html, comment) values ($1, $2, $3, $4, $5)
      on conflict (name) do update set subject = excluded.subject, text = excluded.text, html = excluded.html,
        comment = excluded.comment, updated_at = pg_catalog.now()
      returning ${ROW}`,
      [name, subject, text, html, comment],
    )
    return row!
  }

  /** @returns false when there was none */
  async remove(name: string): Promise<boolean> {
    const rows = await this.data.query(`delete from svc_catalog.svc_mail_template where name = $1 returning name`, [
      name,
    ])
    return rows.length > 0
  }

  private async parsed(template: MailTemplate): Promise<Parsed> {
    const { name, subject, text, html } = template
    const cached = this.cache.get(name)
    if (cached?.source.subject === subject && cached.source.text === text && cached.source.html === html) {
      return cached.parsed
    }
    const parsed = await parse(template, ` of template "${name}"`)
    this.cache.delete(name)
    this.cache.set(name, { source: { subject, text, html }, parsed })
    const [oldest] = this.cache.keys()
    if (this.cache.size > MAX_CACHED) this.cache.delete(oldest!)
    return parsed
  }
}
