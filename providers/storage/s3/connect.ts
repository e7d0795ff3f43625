import type { S3Client, S3ClientConfig } from '@aws-sdk/client-s3'
import type { ObjectStore, ProviderContext } from 'rowhouse'
import type { S3Config } from './config.js'

/** Tested versions. */
const PACKAGES = [
  '@aws-sdk/client-s3@3.1169.0',
  '@aws-sdk/lib-storage@3.1169.0',
  '@aws-sdk/s3-request-presigner@3.1162.0',
]
/** Maximum number of attempts per request, including the first. */
const MAX_ATTEMPTS = 3

/**
 * Creates a client for reads and one for everything else, with the SDK.
 * @throws Error when a package or a part of the credentials is missing
 */
export async function connect(
  { bucket, endpoint, region, pathStyle, accessKeyId, secretAccessKey, connectTimeoutMs, timeoutMs }: S3Config,
  log: ProviderContext['log'],
) {
  if ((accessKeyId === undefined) !== (secretAccessKey === undefined)) {
    throw new Error('accessKeyId and secretAccessKey must be set together')
  }
  const { s3, Upload, getSignedUrl } = await load()
  const shared: S3ClientConfig = {
    ...(endpoint === undefined ? {} : { endpoint, region: 'us-east-1' }),
    ...(region === undefined ? {} : { region }),
    ...(accessKeyId === undefined || secretAccessKey === undefined
      ? {}
      : { credentials: { accessKeyId, secretAccessKey } }),
    forcePathStyle: pathStyle ?? endpoint !== undefined,
    maxAttempts: MAX_ATTEMPTS,
    // Other stores may not support the checksums that the SDK sends by default.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    // It would take a new connection for each part.
    expectContinueHeader: false,
  }
  const handler = { connectionTimeout: connectTimeoutMs, logger: log }
  const client = new s3.S3Client({ ...shared, requestHandler: { ...handler, socketTimeout: timeoutMs } })
  return {
    client,
    server: await serverOf(client, bucket, endpoint),
    // Its connections also idle when our own reader is slow.
    reader: new s3.S3Client({
      ...shared,
      requestHandler: { ...handler, requestTimeout: timeoutMs, throwOnRequestTimeout: true },
    }),
    s3,
    Upload,
    getSignedUrl,
  }
}

/** @returns undefined while the region is unknown */
async function serverOf(
  { config }: S3Client,
  Bucket: string,
  Endpoint: string | undefined,
): Promise<ObjectStore['server']> {
  const Region = await config.region().catch(() => undefined)
  if (Region === undefined) return undefined
  const { url } = config.endpointProvider({ Region, Bucket, Endpoint, ForcePathStyle: config.forcePathStyle })
  return { address: url.hostname, port: Number(url.port || (url.protocol === 'http:' ? 80 : 443)) }
}

async function load() {
  try {
    const [s3, { Upload }, { getSignedUrl }] = await Promise.all([
      import('@aws-sdk/client-s3'),
      import('@aws-sdk/lib-storage'),
      import('@aws-sdk/s3-request-presigner'),
    ])
    return { s3, Upload, getSignedUrl }
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw cause
    throw new Error(`required packages are not installed: npm install ${PACKAGES.join(' ')}`, { cause })
  }
}
