import { addAbortSignal, type Readable } from 'node:stream'
import { defineProvider } from 'rowhouse'
import { connect } from './s3/connect.js'
import { config } from './s3/config.js'
import { isMissing, noSuchKey, unavailable } from './s3/failure.js'
import { counted, steady } from './s3/streams.js'

/** One is sent while the next one is filled. */
const PARTS_AT_ONCE = 2

/** So many times the longest silence, what was given up may still be carried out. */
const SETTLES_AFTER = 6

/** Keeps each object in a bucket of a store that speaks S3. */
export default defineProvider({
  kind: 'storage',
  name: 's3',
  config,
  async create(settings, { log }) {
    const { bucket: Bucket, prefix, partBytes, timeoutMs } = settings
    const { client, reader, s3, Upload, getSignedUrl } = await connect(settings, log)
    /** Until when an object may still come to be, by key. */
    const unsettled = new Map<string, number>()
    const place = (key: string): string => {
      if (!isKey(key)) throw new Error(`"${key}" is no key`)
      return prefix + key
    }
    const soon = () => AbortSignal.timeout(timeoutMs)
    /** What the store does not do is a 503; what `signal` ends is no failure of the store. */
    const ask = async <T>(what: string, signal: AbortSignal | undefined, run: () => Promise<T>): Promise<T> => {
      try {
        signal?.throwIfAborted()
        return await run()
      } catch (error) {
        signal?.throwIfAborted()
        throw unavailable(`${what}, bucket "${Bucket}"`, error)
      }
    }

    /** Undefined: there is no such object. */
    async function sizeOf(Key: string, abortSignal: AbortSignal): Promise<number | undefined> {
      try {
        const { ContentLength } = await client.send(new s3.HeadObjectCommand({ Bucket, Key }), { abortSignal })
        return ContentLength
      } catch (error) {
        if (isMissing(error)) return undefined
        throw error
      }
    }

    /** Uploads first: one that is gone cannot become the object any more. */
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
      async put(key, body, signal) {
        const Key = place(key)
        const there = await ask('put', signal, () => sizeOf(Key, signal))
        if (there !== undefined) throw Object.assign(new Error(`key "${key}" exists already`), { code: 'EEXIST' })
        const bytes = counted(addAbortSignal(signal, body))
        try {
          // It does not get the signal: it would give up while a request is under way, which may still succeed then.
          await new Upload({
            client,
            params: { Bucket, Key, Body: bytes.stream },
            partSize: partBytes,
            queueSize: PARTS_AT_ONCE,
          }).done()
          return { size: bytes.size }
        } catch (error) {
          if (bytes.whole) {
            // All was sent and what the store said was lost; nobody else writes to this key.
            const size = await sizeOf(Key, soon()).catch(() => undefined)
            if (size === bytes.size) return { size }
            unsettled.set(key, performance.now() + SETTLES_AFTER * timeoutMs)
          }
          await remove(Key, soon()).catch((left: unknown) => {
            log.warn(
              { err: unavailable(`put, bucket "${Bucket}"`, left), key },
              'an upload that failed may have left something',
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
        return addAbortSignal(signal, steady(answer.Body as Readable, timeoutMs))
      },
      async delete(key) {
        const Key = place(key)
        await ask('delete', undefined, () => remove(Key))
        if ((unsettled.get(key) ?? 0) > performance.now()) {
          throw unavailable(`delete, bucket "${Bucket}"`, new Error('an upload that was given up may still arrive'))
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

/** Whatever else is in the bucket is not ours. */
const isKey = (key: string): boolean => /^[0-9A-Za-z-]{2,}$/.test(key)

function ignoreMissing(error: unknown): void {
  if (!isMissing(error)) throw error
}
