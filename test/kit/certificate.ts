import { generateKeyPairSync, sign } from 'node:crypto'

/** A key and the certificate of it that it made itself, both PEM. */
export interface Certificate {
  readonly key: string
  readonly cert: string
}

/** For the host, a name or an IPv4 address, for so many days, which may be negative. */
export function selfSigned(host: string, days = 1): Certificate {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const algorithm = sequence(oid(0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b), tagged(0x05))
  const name = sequence(tagged(0x31, sequence(oid(0x55, 0x04, 0x03), tagged(0x0c, Buffer.from(host)))))
  const address = /^[\d.]+$/.test(host)
  const alternative = address ? tagged(0x87, Buffer.from(host.split('.').map(Number))) : tagged(0x82, Buffer.from(host))
  const now = Date.now()
  const signed = sequence(
    tagged(0xa0, tagged(0x02, Buffer.from([2]))),
    tagged(0x02, Buffer.from([1])),
    algorithm,
    name,
    sequence(time(now - 86_400_000 * (days < 0 ? 2 - days : 1)), time(now + 86_400_000 * days)),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    tagged(0xa3, sequence(sequence(oid(0x55, 0x1d, 0x11), tagged(0x04, sequence(alternative))))),
  )
  const key = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  const signature = sign('sha256', signed, privateKey)
  const der = sequence(signed, algorithm, tagged(0x03, Buffer.from([0]), signature))
  const lines = der.toString('base64').replaceAll(/.{64}(?=.)/g, '$&\n')
  return { key, cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n` }
}

function tagged(tag: number, ...parts: readonly Buffer[]): Buffer {
  const body = Buffer.concat(parts)
  const { length } = body
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...size]), body])
}

const sequence = (...parts: readonly Buffer[]): Buffer => tagged(0x30, ...parts)
const oid = (...bytes: readonly number[]): Buffer => tagged(0x06, Buffer.from(bytes))
const time = (at: number): Buffer =>
  tagged(0x17, Buffer.from(`${new Date(at).toISOString().slice(2, 19).replaceAll(/[-:T]/g, '')}Z`))
