import {
  type Aggregate,
  type BoolExp,
  type ColumnRef,
  type CompareOp,
  type Computed,
  type Connection,
  type Field,
  type FunctionCall,
  type Grouping,
  type GroupValue,
  isGeo,
  isLongName,
  type Joined,
  type Link,
  type Masks,
  type Opaque,
  operatorsIn,
  type OrderBy,
  type OrderTarget,
  type PageInfo,
  type Read,
  type SqlType,
} from '../ir.js'
import { INT8, TEXT } from '../plan/operators.js'
import { castGeo, toGeoJson } from './geojson.js'
import { isListOfArrays, Params, type Statement } from './bind.js'
import {
  alias,
  columnNames,
  columnsAs,
  ident,
  integer,
  join,
  rowAlias,
  type Sql,
  sql,
  tableText,
  typeText,
} from './text.js'

/** Prints the parts of one statement. Contains its parameters and aliases. */
export class Printer {
  readonly params: Params
  private aliases = 0
  private calls = false

  constructor(values?: 'literals') {
    this.params = new Params(values)
  }

  /** @param select a query without conditions of its own: PostgreSQL meets one that depends on no row before any row */
  statement(select: Sql): Statement {
    const { ahead } = this.params
    if (ahead.size === 0) return this.command(select)
    return this.command(sql`${select} where pg_catalog.num_nulls(${join([...ahead], sql`, `)}) >= 0`)
  }

  command(text: Sql): Statement {
    const { all, fresh } = this.params
    return { text, params: all, ...(this.calls ? { calls: true } : {}), ...(fresh ? { fresh } : {}) }
  }

  alias(): Sql {
    return alias('t', this.aliases++)
  }

  /** Prints `select t0."id" as "id", ... from "public"."author" t0 where ... order by ... limit ...` */
  select(read: Read, outer?: Outer): Sql {
    const t = this.alias()
    return this.rows(read, t, this.fields(read.fields, t), () => this.limit(read), outer)
  }

  /** Prints `select t0."rev"::text as v, (select x from (select t0."id" as "id", ...) x) as r from ...`. */
  versioned(read: Read, column: string): Sql {
    const t = this.alias()
    const x = rowAlias(read.fields.map(({ key }) => key))
    const row = sql`select ${this.object(read.fields, x)} from (select ${this.fields(read.fields, t)}) ${x}`
    return this.rows(read, t, sql`${version({ column }, t)} as v, (${row}) as r`, () => this.limit(read), undefined)
  }

  /** Prints a select with the given columns. */
  private rows(rows: List, t: Sql, selected: Sql, limit: () => Sql, outer: Outer | undefined): Sql {
    const { group } = rows
    const from = group ? sql`${this.groups(rows, group, outer)} ${t}` : this.source(rows, t, outer)
    const where = group ? [this.condition(group.having, t)] : this.matching(rows, t, outer)
    const masked = this.masked(rows.distinctOn ?? [], group ? undefined : rows.masks, t)
    const distinct = rows.distinctOn?.map(masked.value)
    // PostgreSQL demands that both name the same expressions.
    const isDistinct = ({ by }: OrderBy) => by.kind === 'column' && by.mask && rows.distinctOn?.includes(by.column)
    const order = rows.orderBy.map((each) =>
      isDistinct(each) ? ordered(masked.value((each.by as ColumnRef).column), each) : this.order(each, t),
    )
    // PostgreSQL has no `select distinct on (...)` without columns.
    const isEmpty = distinct !== undefined && selected === ''
    const parts = [
      sql`select ${distinct ? sql`distinct on (${join(distinct, sql`, `)}) ` : sql``}${isEmpty ? sql`1` : selected}`,
      sql` from ${from}${masked.from}${this.where(where)}`,
      order.length ? sql` order by ${join(order, sql`, `)}` : sql``,
      limit(),
      rows.offset ? sql` offset ${this.params.operand(rows.offset)}` : sql``,
    ]
    const text = join(parts, sql``)
    return isEmpty ? sql`select from (${text}) ${this.alias()}` : text
  }

  private matching(rows: List, t: Sql, outer: Outer | undefined): readonly Sql[] {
    const own = this.condition(rows.where, t)
    const where = outer ? this.joined(outer, outer.alias, t, own) : [own]
    return rows.from?.single ? [...where, sql`(not ${t}.* is null)`] : where
  }

  /**
   * Prints groups as a table: `(select t1."kind" as "kind", sum(t1."price") as "total" from "item" t1 where ... group by
   * t1."kind" offset 0)`. Because of the offset, PostgreSQL evaluates no condition on the groups on rows, among which
   * are those that the role may not select.
   */
  private groups(rows: List, { by, values }: Grouping, outer: Outer | undefined): Sql {
    const t = this.alias()
    const used = [...by, ...values.flatMap(({ column }) => column ?? [])]
    const masked = this.masked(used, rows.masks, t)
    const columns = by.map(masked.value)
    const selected = [
      ...by.map((name) => sql`${masked.value(name)} as ${ident(name)}`),
      ...values.map((value) => sql`${groupValue(value, masked.value)} as ${ident(value.key)}`),
    ]
    const from = sql` from ${this.source(rows, t, outer)}${masked.from}${this.where(this.matching(rows, t, outer))}`
    const grouped = columns.length > 0 ? sql` group by ${join(columns, sql`, `)}` : sql``
    return sql`(select ${join(selected, sql`, `)}${from}${grouped} offset 0)`
  }

  /**
   * Prints what columns with masks are joined from, so that each is one expression wherever it is named:
   * ` cross join lateral (select case when ... then t0."salary" end as "salary") t1`
   */
  private masked(columns: readonly string[], masks: Masks | undefined, t: Sql) {
    const some = masks ? [...new Set(columns)].filter((column) => Object.hasOwn(masks, column)) : []
    if (!masks || some.length === 0) return { from: sql``, value: (column: string) => sql`${t}.${ident(column)}` }
    const inner = this.alias()
    const values = some.map((column) => sql`${this.cell(column, masks, t)} as ${ident(column)}`)
    return {
      from: sql` cross join lateral (select ${join(values, sql`, `)}) ${inner}`,
      value: (column: string) => sql`${some.includes(column) ? inner : t}.${ident(column)}`,
    }
  }

  /** Prints a column that may have a mask: `case when ... then t0."salary" end`. */
  cell(column: string, masks: Masks | undefined, t: Sql): Sql {
    const mask = masks && Object.hasOwn(masks, column) ? masks[column] : undefined
    return this.columnOf({ column, ...(mask ? { mask } : {}) }, t)
  }

  /** Prints the table, or the function that returns the rows: `"public"."search"("word" => $1::text) t0`. */
  private source({ from, table }: List, t: Sql, outer: Outer | undefined): Sql {
    if (!from) return sql`${tableText(table)} ${t}`
    if (!from.ahead) return this.called(from, t, outer?.alias)
    const rows = this.params.place({ kind: 'written' })
    if (!from.columns) return sql`pg_catalog.unnest(${rows}::${tableText(table)}[]) ${t}`
    // `(select (r ->> 0)::int4 as "id", ... from json_array_elements($1::json) r) t0`
    const columns = from.columns.map(({ name, type }, i) => {
      return sql`(r ->> ${integer(i)})::${typeText(type)} as ${ident(name)}`
    })
    return sql`(select ${join(columns, sql`, `)} from pg_catalog.json_array_elements(${rows}::json) r) ${t}`
  }

  /** Prints a call as a source of rows, with the names of its columns unless a table has them: `"add"("a" => $1::int4) t0("value")`. */
  called(call: FunctionCall, t: Sql, row?: Sql): Sql {
    const columns = call.columns?.map(({ name }) => ident(name))
    return sql`${this.call(call, row)} ${t}${columns ? sql`(${join(columns, sql`, `)})` : sql``}`
  }

  /**
   * Prints `"public"."full_name"(t0.*, "upper" => $1::bool)`. Uses argument names where they exist, because arguments
   * may be omitted.
   */
  call({ function: ref, args }: FunctionCall, t?: Sql): Sql {
    this.calls = true
    const given = args.map(({ name, variadic, to }) => {
      if (to.kind === 'row' && !t) throw new Error('a function of a row outside a table')
      const value = to.kind === 'row' ? sql`${t as Sql}.*` : this.params.operand(to)
      const named = name === undefined ? value : sql`${ident(name)} => ${value}`
      return variadic ? sql`variadic ${named}` : named
    })
    return sql`${tableText(ref)}(${join(given, sql`, `)})`
  }

  /** Prints a column, or the function call of a computed field. */
  private columnOf({ column, computed, mask }: ColumnRef, t: Sql): Sql {
    const value = computed ? this.call(computed, t) : sql`${t}.${ident(column)}`
    return mask ? sql`case when ${this.condition(mask, t)} then ${value} end` : value
  }

  /** Prints fields with their keys: `t0."id" as "id", ...` */
  fields(fields: readonly Field[], t: Sql): Sql {
    return columnsAs(
      fields.map((field) => this.value(field, t)),
      fields,
    )
  }

  /**
   * Prints the object of a row whose columns are named by `columnNames`: the row itself, which the outermost form prints
   * with its keys. If a key is too long for a name, it is JSON:
   * `('{' || array_to_string(array[$1::text || coalesce(to_json(x."0")::text, 'null'), ...], ',') || '}')::json`
   */
  object(fields: readonly { readonly key: string }[], x: Sql, whole = x): Sql {
    if (!fields.some(({ key }) => isLongName(key))) return whole
    const names = columnNames(fields)
    const members = fields.map(({ key }, i) => {
      const name = this.constant(`${JSON.stringify(key)}:`)
      return sql`${name} || coalesce(pg_catalog.to_json(${x}.${names[i] as Sql})::text, 'null')`
    })
    return sql`('{' || pg_catalog.array_to_string(array[${join(members, sql`, `)}], ',') || '}')::json`
  }

  /** Prints the object of a row as JSON: `row_to_json(x)`. */
  json(fields: readonly { readonly key: string }[], x: Sql): Sql {
    return this.object(fields, x, sql`pg_catalog.row_to_json(${x})`)
  }

  /**
   * Prints rows as one column that contains the object of the row. `x` alone would first refer to a column of that name
   * in the outer query.
   */
  private row(rows: Sql, fields: readonly { readonly key: string }[]): Sql {
    const x = rowAlias(fields.map(({ key }) => key))
    return sql`select ${this.object(fields, x, sql`(${x}.*)::record`)} from (${rows}) ${x}`
  }

  /** Prints the value of a field. Nested rows become an array or one row, which the outermost form prints. */
  value(field: Field, t: Sql): Sql {
    switch (field.kind) {
      case 'column':
        return this.shown(this.columnOf(field, t), field)
      case 'constant':
        return this.constant(field.value)
      case 'version':
        return version(field, t)
      case 'relation': {
        const { read } = field
        const selected = this.select(read, { ...joinOf(field), alias: t })
        // A list of lists is no array.
        const rows = read.values ? values(selected, read.fields) : this.row(selected, read.fields)
        return read.single ? sql`(${rows})` : sql`array(${rows})`
      }
      case 'aggregate':
        return sql`(${this.aggregate(field.read, { ...joinOf(field), alias: t })})`
      case 'condition':
        return this.condition(field.is, t)
      case 'connection':
        return sql`(${this.connection(field.read, { ...joinOf(field), alias: t })})`
      case 'opaque':
        return this.opaque(field.of, t)
    }
  }

  /**
   * Prints a row with one column: the object of aggregates and rows. They are read separately, because the role's limit
   * applies to the rows only.
   */
  private aggregate(read: Aggregate, outer: Outer): Sql {
    const parts = read.parts.map((part) => {
      switch (part.kind) {
        case 'constant':
          return this.constant(part.value)
        case 'nodes': {
          const { parts: _, kind: __, ...rows } = read
          const nodes = this.select({ ...rows, kind: 'read', fields: part.fields, single: false }, outer)
          return sql`array(${this.row(nodes, part.fields)})`
        }
        case 'functions':
          return sql`(${this.computed(part.of, read, outer)})`
      }
    })
    return this.row(sql`select ${columnsAs(parts, read.parts)}`, read.parts)
  }

  /** `select (x.*)::record from (select a.c0 as "count", (select (x.*)::record from (select a.c1 as "id") x) as "max" from (select count(*) as c0, max(t1."id") as c1 from (...) t1) a) x` */
  private computed(all: readonly Computed[], read: Aggregate, outer: Outer): Sql {
    const t = this.alias()
    const a = this.alias()
    const { limit } = read
    const limited = () => (limit ? sql` limit ${this.params.operand(limit)}` : sql``)
    const inner = this.alias()
    const { masks } = read
    const own = Object.keys(masks ?? {}).map((column) => sql`${this.cell(column, masks, inner)} as ${ident(column)}`)
    const selected = masks
      ? join([...others(all, masks).map((column) => sql`${inner}.${ident(column)}`), ...own], sql`, `)
      : sql`${inner}.*`
    const rows = this.rows(read, inner, selected, limited, outer)
    const values: Sql[] = []
    const add = (value: Sql): Sql => {
      const name = alias('c', values.length)
      values.push(sql`${value} as ${name}`)
      return sql`${a}.${name}`
    }
    const shown = all.map((each) => {
      switch (each.kind) {
        case 'constant':
          return this.constant(each.value)
        case 'count':
          return add(count(each, (column) => sql`${t}.${ident(column)}`))
        case 'columns': {
          const of = each.of.map((field) =>
            field.kind === 'constant'
              ? this.constant(field.value)
              : this.shown(add(sql`${functionOf(each.fn, field.type)}(${t}.${ident(field.column)})`), field),
          )
          return sql`(${this.row(sql`select ${columnsAs(of, each.of)}`, each.of)})`
        }
      }
    })
    if (values.length === 0) add(sql`pg_catalog.count(*)`)
    const computed = sql`select ${join(values, sql`, `)} from (${rows}) ${t}`
    return this.row(sql`select ${columnsAs(shown, all)} from (${computed}) ${a}`, all)
  }

  /**
   * Prints a row with one column: the object of a connection. The page contains one more row, if there is one. `unnest`
   * makes each row one of the table again, for computed fields:
   * `with t3 as (select t4.*, row_number() over () as n from (select (t5.*)::"author" as r from "author" t5 where ...
   * order by ... limit $1::int8 + ($1::int8 >= 0)::int4) t4) select ... array(select ... from t3 cross join
   * unnest(array[t3.r]) t6 where t3.n <= $1::int8 order by t3.n) as "edges" ...`
   */
  private connection(read: Connection, outer: Outer): Sql {
    const [page, numbered, t, shown] = [this.alias(), this.alias(), this.alias(), this.alias()] as const
    const most = this.most(read)
    // A negative number stays negative, so that PostgreSQL refuses it.
    const limit = most ? sql` limit ${most} + (${most} >= 0)::int4` : sql``
    const order = read.orderBy.map((each) => this.order(each, t))
    const rows = sql`select (${t}.*)::${tableText(read.table)} as r from ${this.source(read, t, outer)}${this.where(this.shownOf(read, read.where, t, outer))} order by ${join(order, sql`, `)}${limit}`
    const source = sql`${page} cross join pg_catalog.unnest(array[${page}.r]) ${shown}${most ? sql` where ${page}.n <= ${most}` : sql``}`
    const [forwards, backwards] = read.isLast ? [sql`desc`, sql`asc`] : [sql`asc`, sql`desc`]
    const cursor = () => this.opaque(read.cursor, shown)
    const more = most ? sql`exists (select 1 from ${page} where ${page}.n > ${most})` : sql`false`
    const outside = (where: BoolExp | undefined): Sql => {
      if (!where) return sql`false`
      const other = this.alias()
      const found = this.where(this.shownOf(read, where, other, outer))
      return sql`exists (select 1 from ${this.source(read, other, outer)}${found})`
    }
    const { previous, next } = read.outside
    const info = (kind: Exclude<PageInfo['kind'], 'constant'>): Sql => {
      switch (kind) {
        case 'startCursor':
        case 'endCursor': {
          const way = kind === 'startCursor' ? forwards : backwards
          return sql`coalesce((select ${cursor()} from ${source} order by ${page}.n ${way} limit 1), '')`
        }
        case 'hasNextPage':
          return read.isLast ? outside(next) : sql`(${more} or ${outside(next)})`
        case 'hasPreviousPage':
          return read.isLast ? sql`(${more} or ${outside(previous)})` : outside(previous)
      }
    }
    const parts = read.parts.map((part) => {
      switch (part.kind) {
        case 'constant':
          return this.constant(part.value)
        case 'edges': {
          const of = part.of.map((edge) => {
            if (edge.kind === 'constant') return this.constant(edge.value)
            if (edge.kind === 'cursor') return cursor()
            return sql`(${this.row(sql`select ${this.fields(edge.fields, shown)}`, edge.fields)})`
          })
          const edges = sql`select ${columnsAs(of, part.of)} from ${source} order by ${page}.n ${forwards}`
          return sql`array(${this.row(edges, part.of)})`
        }
        case 'pageInfo': {
          const of = part.of.map((each) => (each.kind === 'constant' ? this.constant(each.value) : info(each.kind)))
          return sql`(${this.row(sql`select ${columnsAs(of, part.of)}`, part.of)})`
        }
      }
    })
    const all = sql`with ${page} as (select ${numbered}.*, pg_catalog.row_number() over () as n from (${rows}) ${numbered})`
    return sql`${all} ${this.row(sql`select ${columnsAs(parts, read.parts)}`, read.parts)}`
  }

  /** Prints the conditions on rows of a connection. */
  private shownOf(read: Connection, where: BoolExp, t: Sql, outer: Outer): readonly Sql[] {
    const matching = this.matching({ ...read, where }, t, outer)
    if (!read.distinct) return matching
    const { key, ...distinct } = read.distinct
    const inner = this.alias()
    const columns = (of: Sql) =>
      join(
        key.map((column) => sql`${of}.${ident(column)}`),
        sql`, `,
      )
    const only = this.rows({ ...read, ...distinct }, inner, columns(inner), () => sql``, outer)
    return [...matching, sql`(${columns(t)}) in (${only})`]
  }

  /** Prints `translate(encode(convert_to(json_build_array($1::int4, t0."id")::text, 'UTF8'), 'base64'), chr(10), '')`. */
  private opaque(of: Opaque, t: Sql): Sql {
    const values = of.map((part) => {
      if (!('by' in part)) return this.params.operand(part)
      return part.asText ? sql`(${this.target(part.by, t)})::text` : this.target(part.by, t)
    })
    const json = sql`pg_catalog.convert_to(pg_catalog.json_build_array(${join(values, sql`, `)})::text, 'UTF8')`
    // PostgreSQL breaks lines.
    return sql`pg_catalog.translate(pg_catalog.encode(${json}, 'base64'), pg_catalog.chr(10), '')`
  }

  /** Prints a value as clients see it. */
  private shown(value: Sql, { type, path, asText }: Extract<Field, { kind: 'column' }>): Sql {
    if (isGeo(type)) return toGeoJson(value, type)
    if (type?.labelNames) return this.renamed(value, new Map(type.labelNames.map(([name, label]) => [label, name])))
    if (path) return sql`(${value} #> ${this.params.operand(path)})`
    return asText ? sql`${value}::${type?.kind === 'array' ? sql`text[]` : sql`text`}` : value
  }

  /** Prints a text with other names for some of its values: `coalesce($1::json ->> t0."mood"::text, t0."mood"::text)`. */
  renamed(value: Sql, names: ReadonlyMap<string, string>): Sql {
    const json = this.params.operand({
      kind: 'const',
      value: JSON.stringify(Object.fromEntries(names)),
      type: JSON_TYPE,
    })
    return sql`coalesce(${json} ->> ${value}::text, ${value}::text)`
  }

  private constant(value: string | null): Sql {
    return this.params.operand({ kind: 'const', value, type: TEXT })
  }

  /** @param around the rows around the one that the condition is about, the closest first */
  condition(exp: BoolExp, t: Sql, around: readonly Sql[] = []): Sql {
    switch (exp.kind) {
      case 'and':
      case 'or': {
        if (exp.of.length === 0) return exp.kind === 'and' ? TRUE : sql`false`
        const parts = exp.of.map((part) => this.condition(part, t, around))
        return parts.length === 1
          ? (parts[0] as Sql)
          : sql`(${join(parts, exp.kind === 'and' ? sql` and ` : sql` or `)})`
      }
      case 'not':
        return sql`(not ${this.condition(exp.of, t, around)})`
      case 'guarded':
        return sql`case when ${this.condition(exp.by, t, around)} then ${this.condition(exp.of, t, around)} end`
      case 'null':
        return sql`(${this.columnOf(exp, t)} is null)`
      case 'unknown':
        return sql`null::bool`
      case 'known':
        return sql`nullif(${this.params.operand(exp.to)} is not null, false)`
      case 'compare':
        return this.compare(exp, this.columnOf(exp, t))
      case 'sorted': {
        const value = this.target(exp.by, t)
        return exp.is === 'null'
          ? sql`(${value} is null)`
          : COMPARE[exp.is.op](value, [this.params.operand(exp.is.to)], own(operatorsIn(exp.is.to.type)))
      }
      case 'columns':
        return COMPARE[exp.op](
          sql`${t}.${ident(exp.column)}`,
          [this.columnOf({ column: exp.to, mask: exp.mask }, exp.up ? (around[exp.up - 1] as Sql) : t)],
          own(exp.schema),
        )
      case 'exists': {
        const inner = this.alias()
        const rows = exp.from ? this.call(exp.from, t) : tableText(exp.table)
        const isRow = exp.from?.single ? [sql`(not ${inner}.* is null)`] : []
        const where = [...isRow, ...this.joined(exp, t, inner, this.condition(exp.where, inner, [t, ...around]))]
        return sql`exists (select 1 from ${rows} ${inner}${this.where(where)})`
      }
      case 'aggregate': {
        const inner = this.alias()
        const outer = this.alias()
        const where = this.joined(exp, t, inner, this.condition(exp.where, inner, [t, ...around]))
        const cell = (name: string) => this.cell(name, exp.masks, inner)
        const [column] = exp.columns.map(cell)
        const value =
          exp.fn === 'count'
            ? count(exp, cell)
            : sql`${exp.fn === 'bool_and' ? sql`pg_catalog.bool_and` : sql`pg_catalog.bool_or`}(${column as Sql})`
        const rows = sql`select ${value} as "value" from ${tableText(exp.table)} ${inner}${this.where(where)}`
        return sql`(select ${this.condition(exp.is, outer)} from (${rows}) ${outer})`
      }
    }
  }

  private compare({ op, to, more = [], cast, schema }: Extract<BoolExp, { kind: 'compare' }>, column: Sql): Sql {
    const { params } = this
    const operands = [to, ...more].map((each) =>
      isListOfArrays(each.type) ? params.arrays(each) : params.operand(each),
    )
    const type = op === 'in' || op === 'nin' ? to.type.element : to.type
    const left = cast ? (isGeo(cast.from) ? castGeo(column, cast) : sql`${column}::text`) : column
    return COMPARE[op](left, operands, isGeo(type) ? type : own(schema ?? (type && operatorsIn(type))))
  }

  where(conditions: readonly Sql[]): Sql {
    const parts = conditions.filter((part) => part !== TRUE)
    return parts.length ? sql` where ${join(parts, sql` and `)}` : sql``
  }

  /** Prints the conditions on rows that are joined. Those of requests are evaluated on rows that belong together only. */
  private joined({ on, links }: Joined, outer: Sql, inner: Sql, where: Sql): readonly Sql[] {
    const joins = on.map(([left, right]) => sql`${inner}.${ident(right)} = ${outer}.${ident(left)}`)
    return [...joins, links ? sql`case when ${this.linked(links, outer, inner)} then ${where} end` : where]
  }

  /** Prints whether the role may know that two rows belong together. */
  linked(links: readonly Link[], outer: Sql, inner: Sql): Sql {
    const either = links.map(
      (link) => sql`${this.condition(link.outer, outer)} and ${this.condition(link.inner, inner)}`,
    )
    return either.length === 0 ? sql`false` : sql`(${join(either, sql` or `)})`
  }

  private order(order: OrderBy, t: Sql): Sql {
    return ordered(this.target(order.by, t), order)
  }

  /** Prints a column of a related row: `(select t1."name" from "author" t1 where t1."id" = t0."author_id" limit 1)`. */
  private target(by: OrderTarget, t: Sql): Sql {
    if (by.kind === 'column') return this.columnOf(by, t)
    if (by.kind === 'rank') {
      const [query, language] = [by.query, ...(by.language ? [by.language] : [])].map((to) => this.params.operand(to))
      const vector = by.op === 'vector_matches' ? this.columnOf(by, t) : toVector(this.columnOf(by, t), language)
      return sql`pg_catalog.ts_rank(${vector}, ${toQuery(query as Sql, language)})`
    }
    const inner = this.alias()
    const where = this.joined(by, t, inner, this.condition(by.where, inner))
    if (by.kind === 'aggregate') {
      const value =
        by.of.fn === 'count' ? sql`pg_catalog.count(*)` : sql`${functionOf(by.of.fn)}(${this.columnOf(by.of, inner)})`
      const rows = by.from ? this.call(by.from, t) : tableText(by.table)
      return sql`(select ${value} from ${rows} ${inner}${this.where(where)})`
    }
    return sql`(select ${this.target(by.by, inner)} from ${tableText(by.table)} ${inner}${this.where(where)} limit 1)`
  }

  private limit(read: Read): Sql {
    if (read.single) return sql` limit 1`
    const most = this.most(read)
    return most ? sql` limit ${most}` : sql``
  }

  private most({ limit, maxRows }: Pick<Read, 'limit' | 'maxRows'>): Sql | undefined {
    const most =
      maxRows === undefined ? undefined : this.params.operand({ kind: 'const', value: String(maxRows), type: INT8 })
    const wanted = limit && this.params.operand(limit)
    return most && wanted ? sql`least(${wanted}, ${most})` : (most ?? wanted)
  }
}

/** Prints the version of a row. No collation may treat two versions as equal. */
export const version = ({ column }: { readonly column: string }, t: Sql): Sql =>
  sql`${t}.${ident(column)}::text collate "C"`

/** What reads, aggregates and connections have in common. */
type List = Omit<Read, 'kind' | 'fields' | 'single'>

interface Outer extends Joined {
  readonly alias: Sql
}

const joinOf = ({ on, links }: Joined): Joined => (links ? { on, links } : { on })

/** Prints the values of the only field of rows as JSON. */
export function values(rows: Sql, [field]: readonly Field[]): Sql {
  const key = (field as Field).key
  const x = rowAlias([key])
  return sql`select pg_catalog.to_json(${x}.${ident(key)}) from (${rows}) ${x}`
}

/** Prints an order by a value. */
function ordered(value: Sql, { direction, nulls }: OrderBy): Sql {
  const way = direction === undefined ? sql`` : direction === 'asc' ? sql` asc` : sql` desc`
  const place = nulls === undefined ? sql`` : nulls === 'first' ? sql` nulls first` : sql` nulls last`
  return sql`${value}${way}${place}`
}

/** Returns the columns of aggregates without those that have a mask. */
function others(all: readonly Computed[], masks: Masks): readonly string[] {
  const used = all.flatMap((each) => {
    if (each.kind === 'count') return each.columns
    return each.kind === 'columns' ? each.of.flatMap((field) => (field.kind === 'column' ? field.column : [])) : []
  })
  return [...new Set(used)].filter((column) => !Object.hasOwn(masks, column))
}

/** @param value prints a column */
function count(
  { columns, distinct }: { readonly columns: readonly string[]; readonly distinct: boolean },
  value: (column: string) => Sql,
): Sql {
  if (columns.length === 0) return sql`pg_catalog.count(*)`
  const list = columns.map(value)
  if (distinct)
    return sql`pg_catalog.count(distinct ${list.length === 1 ? (list[0] as Sql) : sql`(${join(list, sql`, `)})`})`
  // Rows in which all of the columns have a value.
  return sql`pg_catalog.count(*) filter (where pg_catalog.num_nulls(${join(list, sql`, `)}) = 0)`
}

/** Lists are sorted, because rows have no order. */
function groupValue({ fn, column, distinct, sorted, type }: GroupValue, cell: (column: string) => Sql): Sql {
  if (column === undefined) return sql`pg_catalog.count(*)`
  const value = cell(column)
  return sql`${functionOf(fn, type)}(${distinct ? sql`distinct ` : sql``}${value}${sorted ? sql` order by ${value}` : sql``})`
}

const TRUE = sql`true`
const JSON_TYPE: SqlType = { schema: 'pg_catalog', name: 'json', kind: 'json' }

/** Prints the name of an aggregate. `min` and `max` of a type that an extension created are in its schema. */
function functionOf(fn: GroupValue['fn'], type?: SqlType): Sql {
  const isOwn = type?.schema === 'pg_catalog' || type?.enum || type?.kind === 'array'
  return (fn === 'min' || fn === 'max') && !isOwn ? FUNCTIONS[fn] : sql`pg_catalog.${FUNCTIONS[fn]}`
}

const FUNCTIONS: Record<GroupValue['fn'], Sql> = {
  count: sql`count`,
  array_agg: sql`array_agg`,
  jsonb_agg: sql`jsonb_agg`,
  sum: sql`sum`,
  avg: sql`avg`,
  min: sql`min`,
  max: sql`max`,
  stddev: sql`stddev`,
  stddev_pop: sql`stddev_pop`,
  stddev_samp: sql`stddev_samp`,
  var_pop: sql`var_pop`,
  var_samp: sql`var_samp`,
  variance: sql`variance`,
}

/** @param geo the PostGIS type, or one of another extension, whose operators and functions need their schema */
type Compare = (left: Sql, operands: readonly Sql[], geo: Geo | undefined) => Sql
type Geo = Pick<SqlType, 'schema'> & Partial<Pick<SqlType, 'kind'>>

const own = (schema: string | undefined): Geo | undefined => (schema === undefined ? undefined : { schema })

const infix = (operator: Sql, geo: Geo | undefined): Sql =>
  geo === undefined ? operator : sql`operator(${ident(geo.schema)}.${operator})`

const binary =
  (operator: Sql): Compare =>
  (left, [right], geo) =>
    sql`(${left} ${infix(operator, geo)} ${right as Sql})`

/** Prints an operator that is also a keyword. */
const pattern =
  (keyword: Sql, operator: Sql): Compare =>
  (left, operands, geo) =>
    binary(geo === undefined ? keyword : operator)(left, operands, geo)

const all: Compare = (left, [right]) => sql`(${left} <> all(${right as Sql}))`

/** PostGIS has no `<>`. */
const not =
  (compare: Compare): Compare =>
  (left, operands, geo) =>
    sql`(not ${compare(left, operands, geo)})`

const call =
  (name: Sql): Compare =>
  (left, operands, geo) =>
    sql`${ident((geo as Geo).schema)}.${name}(${join([left, ...operands], sql`, `)})`

const COMPARE: Record<CompareOp, Compare> = {
  eq: binary(sql`=`),
  ne: (left, operands, geo) => (geo === undefined ? binary(sql`<>`) : not(COMPARE.eq))(left, operands, geo),
  gt: binary(sql`>`),
  lt: binary(sql`<`),
  gte: binary(sql`>=`),
  lte: binary(sql`<=`),
  in: (left, [right], geo) => sql`(${left} ${infix(sql`=`, geo)} any(${right as Sql}))`,
  nin: (left, operands, geo) => (geo === undefined ? all : not(COMPARE.in))(left, operands, geo),
  like: pattern(sql`like`, sql`~~`),
  nlike: pattern(sql`not like`, sql`!~~`),
  ilike: pattern(sql`ilike`, sql`~~*`),
  nilike: pattern(sql`not ilike`, sql`!~~*`),
  // There is no operator for it: it is the text that is compared.
  similar: (left, operands) => binary(sql`similar to`)(left, operands, undefined),
  nsimilar: (left, operands) => binary(sql`not similar to`)(left, operands, undefined),
  regex: binary(sql`~`),
  iregex: binary(sql`~*`),
  nregex: binary(sql`!~`),
  niregex: binary(sql`!~*`),
  contains: binary(sql`@>`),
  contained_in: binary(sql`<@`),
  // The value is never null, see `failClosed`.
  distinct: (left, operands, geo) => sql`(${COMPARE.eq(left, operands, geo)} is not true)`,
  not_distinct: (left, operands, geo) => sql`(${COMPARE.eq(left, operands, geo)} is true)`,
  hstore_contains: binary(sql`@>`),
  hstore_contained_in: binary(sql`<@`),
  path_exists: binary(sql`@?`),
  path_match: binary(sql`@@`),
  trigram_matches: binary(sql`%`),
  net_contains: binary(sql`>>=`),
  net_contained_in: binary(sql`<<=`),
  overlaps: binary(sql`&&`),
  adjacent: binary(sql`-|-`),
  has_key: binary(sql`?`),
  has_keys_any: binary(sql`?|`),
  has_keys_all: binary(sql`?&`),
  ancestor: binary(sql`@>`),
  ancestor_any: binary(sql`@>`),
  descendant: binary(sql`<@`),
  descendant_any: binary(sql`<@`),
  matches: binary(sql`~`),
  // With a language the expression is immutable, so that an index on it applies.
  text_matches: (left, [query, language]) => sql`(${toVector(left, language)} @@ ${toQuery(query as Sql, language)})`,
  vector_matches: (left, [query, language]) => sql`(${left} @@ ${toQuery(query as Sql, language)})`,
  matches_any: binary(sql`?`),
  matches_fulltext: binary(sql`@`),
  st_contains: call(sql`ST_Contains`),
  st_crosses: call(sql`ST_Crosses`),
  st_equals: call(sql`ST_Equals`),
  st_intersects: call(sql`ST_Intersects`),
  st_overlaps: call(sql`ST_Overlaps`),
  st_touches: call(sql`ST_Touches`),
  st_within: call(sql`ST_Within`),
  st_d_within: call(sql`ST_DWithin`),
  st_3d_d_within: call(sql`ST_3DDWithin`),
  st_3d_intersects: call(sql`ST_3DIntersects`),
  st_boxes: (left, [right, distance], geo) =>
    binary(sql`&&`)(left, [distance ? grown(right as Sql, distance, geo) : (right as Sql)], geo),
}

const toVector = (text: Sql, language: Sql | undefined): Sql =>
  sql`pg_catalog.to_tsvector(${language ? sql`${language}, ` : sql``}${text}::text)`

const toQuery = (query: Sql, language: Sql | undefined): Sql =>
  sql`pg_catalog.websearch_to_tsquery(${language ? sql`${language}, ` : sql``}${query})`

/** Prints the bounding box expanded by a distance. */
const grown = (value: Sql, distance: Sql, geo: Geo | undefined): Sql =>
  call(geo?.kind === 'geography' ? sql`_ST_Expand` : sql`ST_Expand`)(value, [distance], geo)
