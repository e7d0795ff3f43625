/** The JSON Schema subset for configuration and request bodies. Ajv validates it; `Infer` is its TypeScript type. */
export type Schema =
  | Described<{
      readonly type: 'string' | 'number' | 'integer' | 'boolean' | 'null'
      readonly enum?: readonly unknown[]
      readonly pattern?: string
      readonly minimum?: number
      readonly maximum?: number
      readonly minLength?: number
      readonly maxLength?: number
    }>
  | Described<{
      readonly type: 'array'
      readonly items: Schema
      readonly minItems?: number
      readonly maxItems?: number
      readonly uniqueItems?: boolean
    }>
  | Described<{
      readonly type: 'object'
      readonly properties?: Readonly<Record<string, Schema>>
      readonly required?: readonly string[]
      readonly additionalProperties?: boolean | Schema
      readonly minProperties?: number
    }>
  | Described<{ readonly anyOf: readonly Schema[] }>
  | Described<{ readonly type?: never; readonly anyOf?: never }>

type Described<S> = S & {
  readonly default?: unknown
  readonly description?: string
  /** Marks a password, a key or a token. */
  readonly secret?: boolean
  /** Marks a setting that few servers change, with all settings in it. */
  readonly advanced?: boolean
}

/** A schema of any form. */
export interface AnySchema {
  readonly type?: string
  readonly anyOf?: readonly Schema[]
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: boolean | Schema
}

/** A mistake in a value, and the keys that lead to it. */
export interface Issue {
  readonly keys: readonly (string | number)[]
  readonly message: string
}

type Required<S> = S extends { required: readonly (infer K)[] } ? K : never
type Defaulted<P> = { [K in keyof P]: P[K] extends { default: unknown } ? K : never }[keyof P]
type Properties<P, R> = { [K in keyof P as K extends R ? K : never]: Infer<P[K]> } & {
  [K in keyof P as K extends R ? never : K]?: Infer<P[K]>
}
type Flat<T> = { [K in keyof T]: T[K] }

/** The TypeScript type of the values that a schema accepts, with defaults applied. */
export type Infer<S> = Schema extends S
  ? unknown
  : S extends { readonly enum: readonly (infer E)[] }
    ? E
    : S extends { readonly type: 'string' }
      ? string
      : S extends { readonly type: 'number' | 'integer' }
        ? number
        : S extends { readonly type: 'boolean' }
          ? boolean
          : S extends { readonly type: 'null' }
            ? null
            : S extends { readonly type: 'array'; readonly items: infer I }
              ? Infer<I>[]
              : S extends { readonly type: 'object'; readonly properties: infer P }
                ? Flat<Properties<P, Required<S> | Defaulted<P>>>
                : S extends { readonly type: 'object'; readonly additionalProperties: infer A }
                  ? A extends Schema
                    ? Record<string, Infer<A>>
                    : Record<string, unknown>
                  : S extends { readonly type: 'object' }
                    ? Record<string, unknown>
                    : S extends { readonly anyOf: readonly (infer U)[] }
                      ? Infer<U>
                      : unknown

/** Returns the schema that refuses unknown keys in objects with known properties, unless it allows them itself. */
export function refuseUnknownKeys(schema: AnySchema): AnySchema {
  const properties = Object.entries(schema.properties ?? {}).map(([key, item]) => [key, refuseUnknownKeys(item)])
  return {
    ...(schema.properties === undefined ? {} : { additionalProperties: false }),
    ...schema,
    ...(schema.properties === undefined ? {} : { properties: Object.fromEntries(properties) }),
    ...(schema.items === undefined ? {} : { items: refuseUnknownKeys(schema.items) }),
    ...(schema.anyOf === undefined ? {} : { anyOf: schema.anyOf.map(refuseUnknownKeys) }),
    ...(typeof schema.additionalProperties === 'object'
      ? { additionalProperties: refuseUnknownKeys(schema.additionalProperties) }
      : {}),
  } as AnySchema
}
