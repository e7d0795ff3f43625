import type { BoolExp, CompareOp, Field, Join, OrderBy, OrderTarget, Read } from '../plan/ir.js'
import { INT8 } from '../plan/operators.js'
import { Params, type Statement } from './statement.js'
import { alias, ident, join, rowAlias, type Sql, sql, tableText } from './text.js'

/** Prints the parts of one statement; holds its parameters and its aliases. */
export class Printer {
  readonly params = new Params()
  private aliases = 0

  statement(text: Sql): Statement {
    return { text, params: this.params.all }
  }

  alias(): Sql {
    return alias('t', this.aliases++)
  }

  /** `select t0."id" as "id", ... from "public"."author" t0 where ... order by ... limit ...` */
  select(read: Read, outer?: { readonly alias: Sql; readonly on: Join }): Sql {
    const t = this.alias()
    const fields = read.fields.map((field) => this.field(field, t))
    const where = [...(outer ? this.joined(outer.on, outer.alias, t) : []), this.condition(read.where, t)]
    const order = read.orderBy.map((each) => this.order(each, t))
    const parts = [
      sql`select ${join(fields, sql`, `)} from ${tableText(read.table)} ${t}${this.where(where)}`,
      order.length ? sql` order by ${join(order, sql`, `)}` : sql``,
      this.limit(read),
      read.offset ? sql` offset ${this.params.operand(read.offset)}` : sql``,
    ]
    return join(parts, sql``)
  }

  /** A field with its key: `t0."id" as "id"`; nested rows as an array or one row, which the outermost form prints. */
  field(field: Field, t: Sql): Sql {
    if (field.kind === 'column') return sql`${t}.${ident(field.column)} as ${ident(field.key)}`
    const x = rowAlias(field.read.fields.map(({ key }) => key))
    const rows = sql`select ${x} from (${this.select(field.read, { alias: t, on: field.on })}) ${x}`
    return field.read.single ? sql`(${rows}) as ${ident(field.key)}` : sql`array(${rows}) as ${ident(field.key)}`
  }

  condition(exp: BoolExp, t: Sql): Sql {
    switch (exp.kind) {
      case 'and':
      case 'or': {
        if (exp.of.length === 0) return exp.kind === 'and' ? TRUE : sql`false`
        const parts = exp.of.map((part) => this.condition(part, t))
        return parts.length === 1
          ? (parts[0] as Sql)
          : sql`(${join(parts, exp.kind === 'and' ? sql` and ` : sql` or `)})`
      }
      case 'not':
        return sql`(not ${this.condition(exp.of, t)})`
      case 'null':
        return sql`(${t}.${ident(exp.column)} is null)`
      case 'unknown':
        return sql`null::bool`
      case 'compare':
        return COMPARE[exp.op](sql`${t}.${ident(exp.column)}`, this.params.operand(exp.to))
      case 'columns':
        return sql`(${t}.${ident(exp.column)} ${COLUMNS[exp.op]} ${t}.${ident(exp.to)})`
      case 'exists': {
        const inner = this.alias()
        const where = [...this.joined(exp.on, t, inner), this.condition(exp.where, inner)]
        return sql`exists (select 1 from ${tableText(exp.table)} ${inner}${this.where(where)})`
      }
    }
  }

  where(conditions: readonly Sql[]): Sql {
    const parts = conditions.filter((part) => part !== TRUE)
    return parts.length ? sql` where ${join(parts, sql` and `)}` : sql``
  }

  private joined(on: Join, outer: Sql, inner: Sql): readonly Sql[] {
    return on.map(([left, right]) => sql`${inner}.${ident(right)} = ${outer}.${ident(left)}`)
  }

  private order({ by, direction, nulls }: OrderBy, t: Sql): Sql {
    const way = direction === undefined ? sql`` : direction === 'asc' ? sql` asc` : sql` desc`
    const place = nulls === undefined ? sql`` : nulls === 'first' ? sql` nulls first` : sql` nulls last`
    return sql`${this.target(by, t)}${way}${place}`
  }

  /** A column of a related row: `(select t1."name" from "author" t1 where t1."id" = t0."author_id" limit 1)`. */
  private target(by: OrderTarget, t: Sql): Sql {
    if (by.kind === 'column') return sql`${t}.${ident(by.column)}`
    const inner = this.alias()
    const where = [...this.joined(by.on, t, inner), this.condition(by.where, inner)]
    return sql`(select ${this.target(by.by, inner)} from ${tableText(by.table)} ${inner}${this.where(where)} limit 1)`
  }

  private limit({ single, limit, maxRows }: Read): Sql {
    if (single) return sql` limit 1`
    const most =
      maxRows === undefined ? undefined : this.params.operand({ kind: 'const', value: String(maxRows), type: INT8 })
    const wanted = limit && this.params.operand(limit)
    if (most && wanted) return sql` limit least(${wanted}, ${most})`
    return most ? sql` limit ${most}` : wanted ? sql` limit ${wanted}` : sql``
  }
}

export const TRUE = sql`true`

const binary =
  (operator: Sql) =>
  (left: Sql, right: Sql): Sql =>
    sql`(${left} ${operator} ${right})`

const COMPARE: Record<CompareOp, (left: Sql, right: Sql) => Sql> = {
  eq: binary(sql`=`),
  ne: binary(sql`<>`),
  gt: binary(sql`>`),
  lt: binary(sql`<`),
  gte: binary(sql`>=`),
  lte: binary(sql`<=`),
  in: (left, right) => sql`(${left} = any(${right}))`,
  nin: (left, right) => sql`(${left} <> all(${right}))`,
  like: binary(sql`like`),
  nlike: binary(sql`not like`),
  ilike: binary(sql`ilike`),
  nilike: binary(sql`not ilike`),
  similar: binary(sql`similar to`),
  nsimilar: binary(sql`not similar to`),
  regex: binary(sql`~`),
  iregex: binary(sql`~*`),
  nregex: binary(sql`!~`),
  niregex: binary(sql`!~*`),
  contains: binary(sql`@>`),
  contained_in: binary(sql`<@`),
  has_key: binary(sql`?`),
  has_keys_any: binary(sql`?|`),
  has_keys_all: binary(sql`?&`),
  ancestor: binary(sql`@>`),
  ancestor_any: binary(sql`@>`),
  descendant: binary(sql`<@`),
  descendant_any: binary(sql`<@`),
  matches: binary(sql`~`),
  matches_any: binary(sql`?`),
  matches_fulltext: binary(sql`@`),
}

const COLUMNS = { eq: sql`=`, ne: sql`<>`, gt: sql`>`, lt: sql`<`, gte: sql`>=`, lte: sql`<=` }
