import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { changed } from '../changed.js'

/** A fault that a loop has to catch, or the loop proves nothing. */
export type Fault = keyof typeof FAULTS

/** What it does wrong. */
export const FAULTS = {
  'in-place': 'writes over the bytes that are there',
  late: 'says that bytes are durable before they are there, so that the record comes first',
  unsynced: 'does not wait for the disk',
  unnamed: 'makes the bytes of an upload durable and not their name',
  forgetful: 'forgets bytes before it is durable that they are gone',
  unfenced: 'commits an upload that was given up',
} as const

export interface Planted {
  /** The section `providers.storage`. */
  readonly storage?: object
  /** Of the section `plugins.filestore`. */
  readonly filestore?: object
  remove(): Promise<void>
}

/** @param root where bytes are */
export async function plant(fault: Fault, root: string): Promise<Planted> {
  switch (fault) {
    case 'in-place':
    case 'late': {
      const planted = fileURLToPath(new URL('planted.js', import.meta.url))
      return { storage: { default: 'planted', planted: { use: planted, root, fault } }, remove: async () => {} }
    }
    case 'unsynced':
      return { storage: { default: 'disk', disk: { durability: 'process' } }, remove: async () => {} }
    case 'unnamed':
      return changedStore(/(await file\.close\(\);\s*)await flushEntries\(directory\);/)
    case 'forgetful':
      return changedStore(/(await unlink\(path\)\.catch\(ignoreMissing\);\s*)await flushEntries\(directory\);/)
    case 'unfenced': {
      const fence = /(leased_until = null\s*from stored where blob\.blob_id = stored\.blob_id) and state = 'writing'/
      const { file, remove } = await changed('plugins/filestore/files.js', fence)
      return { filestore: { use: join(dirname(file), 'index.js') }, remove }
    }
  }
}

async function changedStore(without: RegExp): Promise<Planted> {
  const { file, remove } = await changed('providers/storage/disk.js', without)
  return { storage: { default: 'disk', disk: { use: file } }, remove }
}
