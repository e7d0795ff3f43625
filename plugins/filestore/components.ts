import type { Host } from 'rowhouse'
import type { Access } from './access.js'
import type { BlobCache } from './blob-cache.js'
import type { Changes } from './changes.js'
import type { FilestoreConfig } from './config.js'
import type { Files } from './files.js'
import type { PendingFiles } from './pending.js'
import type { Rules } from './rules.js'
import type { StoreHealth } from './store-health.js'
import type { SignedUrls } from './signed-urls.js'
import type { Uploads } from './uploads.js'

/** The objects that the plugin's routes use. */
export interface Components {
  readonly host: Host
  readonly config: FilestoreConfig
  readonly files: Files
  readonly changes: Changes
  readonly uploads: Uploads
  readonly pending: PendingFiles
  readonly rules: Rules
  readonly access: Access
  readonly urls: SignedUrls
  readonly cache: BlobCache
  readonly health: StoreHealth
}

/** What reading stored bytes needs. */
export type Storage = Pick<Components, 'host' | 'files' | 'cache'>
