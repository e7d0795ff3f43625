import type { Host } from 'rowhouse'
import type { Access } from './access.js'
import type { Changes } from './changes.js'
import type { FilestoreConfig } from './config.js'
import type { Files } from './files.js'
import type { Rules } from './rules.js'
import type { SignedUrls } from './signed-urls.js'
import type { SmallBlobs } from './small-blobs.js'
import type { Uploads } from './uploads.js'

/** What the routes are made of. */
export interface Parts {
  readonly host: Host
  readonly config: FilestoreConfig
  readonly files: Files
  readonly changes: Changes
  readonly uploads: Uploads
  readonly rules: Rules
  readonly access: Access
  readonly urls: SignedUrls
  readonly small: SmallBlobs
}
