import { measureClients } from './clients.js'
import { measureInstances } from './instances.js'
import { measureNesting } from './nesting.js'
import { measureRoles } from './roles.js'
import { measureRows } from './rows.js'
import { measureTables } from './tables.js'

/** How cost grows with one thing at a time: curves, which take longer than a quick run has. */
export const GROWTH = [
  { id: 'tables', name: 'growth with tables', measure: measureTables },
  { id: 'roles', name: 'growth with roles', measure: measureRoles },
  { id: 'rows', name: 'growth with rows', measure: measureRows },
  { id: 'nesting', name: 'growth with nesting', measure: measureNesting },
  { id: 'clients', name: 'growth with clients', measure: measureClients },
  { id: 'instances', name: 'growth with instances', measure: measureInstances },
]
