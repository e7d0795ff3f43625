import type { ComponentType } from 'preact'
import { useLocation } from 'preact-iso'
import { isAdmin } from '../../session.js'
import { Problem } from '../../ui/problem.js'
import { type Tab, Tabs } from '../../ui/tabs.js'
import { Diagram } from './diagram/index.js'
import { Functions } from './functions.js'
import { Metadata } from './metadata/index.js'
import { Migrations } from './migrations.js'
import { Sql } from './sql/index.js'
import { StructureProvider, useReadStructure } from './structure.js'
import { Tables } from './tables/index.js'

type View = 'table' | 'diagram' | 'sql' | 'functions' | 'migrations' | 'metadata'
const TABS: readonly Tab<View>[] = [
  { key: 'table', title: 'Tables' },
  { key: 'diagram', title: 'Diagram' },
  { key: 'sql', title: 'SQL' },
  { key: 'functions', title: 'Functions' },
  { key: 'migrations', title: 'Migrations' },
  { key: 'metadata', title: 'Metadata' },
]
const VIEWS: Readonly<Record<View, ComponentType>> = {
  table: Tables,
  diagram: Diagram,
  sql: Sql,
  functions: Functions,
  migrations: Migrations,
  metadata: Metadata,
}

/** What the database has and what of it is tracked: `/console/structure/table/orders`, `/console/structure/sql`. */
export default function Structure() {
  const { path, route } = useLocation()
  const { structure, failure } = useReadStructure()
  const view = TABS.find(({ key }) => key === path.split('/')[3])?.key ?? 'table'
  if (!isAdmin.value) return <p class="empty">Only an admin can change the structure.</p>
  const Shown = VIEWS[view]
  return (
    <div class="structure">
      <Tabs
        label="Structure"
        tabs={TABS}
        chosen={view}
        onChoose={(key) => route(key === 'table' ? '/console/structure' : `/console/structure/${key}`)}
      />
      {failure !== undefined && <Problem of={failure} />}
      {structure ? (
        <StructureProvider value={structure}>
          <Shown key={view} />
        </StructureProvider>
      ) : (
        failure === undefined && <p class="wait">Loading …</p>
      )}
    </div>
  )
}
