import { addAbortSignal, type Readable } from 'node:stream'
import { defineProvider } from 'rowhouse'
import { connect } from './s3/connect.js'
import { config } from './s3/config.js'
import { isMissing, noSuchKey, unavailable } from './s3/failure.js'
import { counted, withSilenceLimit } from './s3/streams.js'

/** Number of parts in memory: one is sent while the next is filled. */
const PARTS_AT_ONCE = 2

/** Multiple of the timeout during which an abandoned request may still take effect. */
const SETTLE_FACTOR = 6

/** Stores each object in a bucket of an S3-compatible store. */
export default defineProvider({
  kind: 'storage',
  name: 's3',
  config,
  async create(settings, { log }) {
    const { bucket: Bucket, prefix, partBytes, timeoutMs } = settings
    const { client, server, reader, s3, Upload, getSignedUrl } = await connect(settings, log)
    /** Times until which abandoned uploads may still create an object, by key. */
    const unsettled = new Map<string, number>()
    const place = (key: string): string => {
      if (!isKey(key)) throw new Error(`"${key}" is not a valid key`)
      return prefix + key
    }
    const timeout = () => AbortSignal.timeout(timeoutMs)
    /** Runs a request. Failures of the store become a 503; an abort by `signal` does not. */
    const ask = async <T>(what: string, signal: AbortSignal | undefined, run: () => Promise<T>): Promise<T> => {
      try {
        signal?.throwIfAborted()
        return await run()
      } catch (error) {
        signal?.throwIfAborted()
        throw unavailable(`${what}, bucket "${Bucket}"`, error)
      }
    }

    /** Returns the size of an object, or undefined when it does not exist. */
    async function sizeOf(Key: string, abortSignal: AbortSignal): Promise<number | undefined> {
      try {
        const { ContentLength } = await client.send(new s3.HeadObjectCommand({ Bucket, Key }), { abortSignal })
        return ContentLength
      } catch (error) {
        if (isMissing(error)) return undefined
        throw error
      }
    }

    /**
     * Removes an object. Deletes unfinished uploads first, because those can no longer become the object afterwards.
     */
    async function remove(Key: string, abortSignal?: AbortSignal): Promise<void> {
      const options = abortSignal === undefined ? {} : { abortSignal }
      for (let from = {}, more = true; more;) {
        const page = await client.send(new s3.ListMultipartUploadsCommand({ Bucket, Prefix: Key, ...from }), options)
        for (const { Key: found, UploadId } of page.Uploads ?? []) {
          if (found !== Key) continue
          await client.send(new s3.AbortMultipartUploadCommand({ Bucket, Key, UploadId }), options).catch(ignoreMissing)
        }
        from = { KeyMarker: page.NextKeyMarker, UploadIdMarker: page.NextUploadIdMarker }
        more = page.IsTruncated === true
      }
      await client.send(new s3.DeleteObjectCommand({ Bucket, Key }), options).catch(ignoreMissing)
    }

    return {
      server,
      async put(key, body, signal) {
        const Key = place(key)
        const existing = await ask('put', signal, () => sizeOf(Key, signal))
        if (existing !== undefined) throw Object.assign(new Error(`key "${key}" already exists`), { code: 'EEXIST' })
        const bytes = counted(addAbortSignal(signal, body))
        try {
          // Without the signal: the upload would stop during a request that may still succeed.
          await new Upload({
            client,
            params: { Bucket, Key, Body: bytes.stream },
            partSize: partBytes,
            queueSize: PARTS_AT_ONCE,
          }).done()
          return { size: bytes.size }
        } catch (error) {
          if (bytes.complete) {
            // Everything was sent but the response was lost. No other process writes this key.
            const size = await sizeOf(Key, timeout()).catch(() => undefined)
            if (size === bytes.size) return { size }
            unsettled.set(key, performance.now() + SETTLE_FACTOR * timeoutMs)
          }
          await remove(Key, timeout()).catch((left: unknown) => {
            log.warn(
              { err: unavailable(`put, bucket "${Bucket}"`, left), key },
              'a failed upload may have left data in the store',
            )
          })
          if (bytes.failure !== undefined) throw bytes.failure
          throw unavailable(`put, bucket "${Bucket}"`, error)
        }
      },
      async get(key, range, signal) {
        const Range = range && `bytes=${range.start}-${range.end}`
        const get = new s3.GetObjectCommand({ Bucket, Key: place(key), ...(Range === undefined ? {} : { Range }) })
        const answer = await ask('get', signal, () =>
          reader.send(get, { abortSignal: signal }).catch((error: unknown) => {
            if (isMissing(error)) return undefined
            throw error
          }),
        )
        if (answer === undefined) throw noSuchKey(key)
        return addAbortSignal(signal, withSilenceLimit(answer.Body as Readable, timeoutMs))
      },
      async delete(key) {
        const Key = place(key)
        await ask('delete', undefined, () => remove(Key))
        if ((unsettled.get(key) ?? 0) > performance.now()) {
          throw unavailable(`delete, bucket "${Bucket}"`, new Error('an abandoned upload may still complete'))
        }
        unsettled.delete(key)
      },
      async *list(signal) {
        const pages = s3.paginateListObjectsV2({ client }, { Bucket, Prefix: prefix }, { abortSignal: signal })
        for (;;) {
          const { value: page, done } = await ask('list', signal, () => pages.next())
          if (done) return
          for (const { Key = '', Size = 0 } of page.Contents ?? []) {
            const key = Key.slice(prefix.length)
            if (isKey(key)) yield { key, size: Size }
          }
        }
      },
      async signedUrl(key, { expiresInSeconds, contentType, disposition }) {
        const get = new s3.GetObjectCommand({
          Bucket,
          Key: place(key),
          ResponseContentType: contentType,
          ...(disposition === undefined ? {} : { ResponseContentDisposition: disposition }),
        })
        return ask('sign', undefined, () => getSignedUrl(client, get, { expiresIn: expiresInSeconds }))
      },
      async close() {
        client.destroy()
        reader.destroy()
      },
    }
  },
})

/** Returns whether a key is ours. The bucket may contain other objects. */
const isKey = (key: string): boolean => /^[0-9A-Za-z-]{2,}$/.test(key)

function ignoreMissing(error: unknown): void {
  if (!isMissing(error)) throw error
}
