import type { ComponentType } from 'preact'
import { lazy } from 'preact-iso'

/** A panel of the console. Its address is `/console/<path>`, and whatever follows belongs to it. */
interface Panel {
  readonly path: string
  readonly title: string
  /** Loaded when it is opened. */
  readonly component: ComponentType
  /** Whether only an admin can use it, as whomever it acts. */
  readonly adminOnly?: boolean
}

/** The panels, in the order of the menu. */
export const PANELS: readonly Panel[] = [
  { path: 'data', title: 'Data', component: lazy(() => import('./data/index.js')) },
  { path: 'ask', title: 'Ask', component: lazy(() => import('./ask/index.js')) },
  {
    path: 'structure',
    title: 'Structure',
    component: lazy(() => import('./structure/index.js')),
    adminOnly: true,
  },
  {
    path: 'permissions',
    title: 'Permissions',
    component: lazy(() => import('./permissions/index.js')),
    adminOnly: true,
  },
  { path: 'templates', title: 'Templates', component: lazy(() => import('./templates/index.js')) },
  { path: 'files', title: 'Files', component: lazy(() => import('./files/index.js')) },
  {
    path: 'messages',
    title: 'Messages',
    component: lazy(() => import('./messages/index.js')),
    adminOnly: true,
  },
  { path: 'health', title: 'Health', component: lazy(() => import('./health/index.js')), adminOnly: true },
]
