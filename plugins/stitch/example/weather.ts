import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { buildSchema, graphql } from 'graphql'

/** A small third-party weather service. The weather of a city never changes. */
const schema = buildSchema(`
  type Query {
    "the weather of one city"
    weather(city_name: String!): Weather
    "the weather of several cities, in any order"
    weathers(city_names: [String!]!): [Weather!]!
  }
  type Weather {
    city: String!
    "in degrees Celsius"
    temperature: Float!
    sky: Sky!
  }
  enum Sky { CLEAR CLOUDS RAIN SNOW }
`)

const SKIES = ['CLEAR', 'CLOUDS', 'RAIN', 'SNOW'] as const

function weather({ city_name: city }: { readonly city_name: string }) {
  let sum = 0
  for (const character of city) sum = (sum * 31 + character.codePointAt(0)!) % 997
  return { city, temperature: (sum % 350) / 10, sky: SKIES[sum % SKIES.length] }
}

const rootValue = {
  weather,
  weathers: ({ city_names }: { readonly city_names: readonly string[] }) =>
    [...new Set(city_names)].map((city_name) => weather({ city_name })),
}

/** @param onRequest called with the body of each request */
export function weatherServer(onRequest: (body: string) => void = () => {}): Server {
  const answer = async (body: string) => {
    onRequest(body)
    const { query, variables } = JSON.parse(body) as { query: string; variables?: Record<string, unknown> }
    return graphql({ schema, rootValue, source: query, variableValues: variables ?? {} })
  }
  return createServer((req, res) => void respond(req, res))

  async function respond(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const [status, result] = await text(req)
      .then(answer)
      .then(
        (found) => [200, found] as const,
        () => [400, { errors: [{ message: 'expecting a GraphQL request as JSON' }] }] as const,
      )
    res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(result))
  }
}
