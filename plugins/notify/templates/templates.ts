import type { Data } from 'rowhouse'
import { type Content, type Parsed, parseTemplate, type Rendered, type Source } from './render.js'

/** What somebody keeps under a name. */
export interface Draft extends Source {
  readonly comment: string | null
}

/** A row of `svc_catalog.svc_mail_template`. */
export interface MailTemplate extends Draft {
  readonly name: string
  readonly created_at: string
  readonly updated_at: string
}

export type Listed = Pick<MailTemplate, 'name' | 'subject' | 'comment' | 'created_at' | 'updated_at'>

export const TEMPLATE_NAME = /^[A-Za-z0-9_.-]{1,64}$/
/** Templates that stay parsed. */
const MOST_KNOWN = 200

const TIMES = `to_json(created_at) as created_at, to_json(updated_at) as updated_at`
const ROW = `name, subject, text, html, comment, ${TIMES}`

/** The mail templates that are stored here. All servers on a database have the same, and see a change at once. */
export class MailTemplates {
  private readonly data: Data
  private readonly known = new Map<string, { readonly source: Source; readonly parsed: Parsed }>()

  constructor(data: Data) {
    this.data = data
  }

  /**
   * Fills in a template.
   * @param content values by the names of variables; those that the template does not ask for do nothing
   * @returns undefined when there is no such template
   * @throws ServiceError 400 `invalid_payload`, which names the variable that has no value
   */
  async render(name: string, content: readonly Content[]): Promise<Rendered | undefined> {
    const stored = await this.find(name)
    return stored && this.parsed(stored)(content)
  }

  async list(): Promise<readonly Listed[]> {
    return this.data.query<Listed>(
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

  /** Stores a template, in place of one of that name. Whether it can be parsed was seen before. */
  async put(name: string, { subject, text, html, comment }: Draft): Promise<MailTemplate> {
    const [row] = await this.data.query<MailTemplate>(
      `insert into svc_catalog.svc_mail_template (name, subject, text, html, comment) values ($1, $2, $3, $4, $5)
      on conflict (name) do update set subject = excluded.subject, text = excluded.text, html = excluded.html,
        comment = excluded.comment, updated_at = now()
      returning ${ROW}`,
      [name, subject, text, html, comment],
    )
    return row!
  }

  /** @returns whether there was one */
  async remove(name: string): Promise<boolean> {
    const rows = await this.data.query(`delete from svc_catalog.svc_mail_template where name = $1 returning name`, [
      name,
    ])
    return rows.length > 0
  }

  private parsed(template: MailTemplate): Parsed {
    const { name, subject, text, html } = template
    const known = this.known.get(name)
    if (known?.source.subject === subject && known.source.text === text && known.source.html === html) {
      return known.parsed
    }
    const parsed = parseTemplate(template, ` of template "${name}"`)
    this.known.delete(name)
    this.known.set(name, { source: { subject, text, html }, parsed })
    const [oldest] = this.known.keys()
    if (this.known.size > MOST_KNOWN) this.known.delete(oldest!)
    return parsed
  }
}
