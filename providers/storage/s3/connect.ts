import type { S3ClientConfig } from '@aws-sdk/client-s3'
import type { ProviderContext } from 'rowhouse'
import type { S3Config } from './config.js'

/** The versions that are tested. */
const PACKAGES = [
  '@aws-sdk/client-s3@3.1169.0',
  '@aws-sdk/lib-storage@3.1169.0',
  '@aws-sdk/s3-request-presigner@3.1162.0',
]
/** Of each request, the first one included. */
const MAX_ATTEMPTS = 3

/**
 * The client that reads and the one that does all the rest, with what the SDK has for them.
 * @throws Error when a package or a part of the credentials is missing
 */
export async function connect(
  { endpoint, region, pathStyle, accessKeyId, secretAccessKey, connectTimeoutMs, timeoutMs }: S3Config,
  log: ProviderContext['log'],
) {
  if ((accessKeyId === undefined) !== (secretAccessKey === undefined)) {
    throw new Error('accessKeyId and secretAccessKey belong together: set both or none')
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
    // Other stores need not know the checksums that it would send unasked.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    // Would take a new connection for each part.
    expectContinueHeader: false,
  }
  const handler = { connectionTimeout: connectTimeoutMs, logger: log }
  return {
    client: new s3.S3Client({ ...shared, requestHandler: { ...handler, socketTimeout: timeoutMs } }),
    // On its connections nothing moves also when our own reader is slow.
    reader: new s3.S3Client({
      ...shared,
      requestHandler: { ...handler, requestTimeout: timeoutMs, throwOnRequestTimeout: true },
    }),
    s3,
    Upload,
    getSignedUrl,
  }
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
    throw new Error(`it needs packages that do not come along: npm install ${PACKAGES.join(' ')}`, { cause })
  }
}
