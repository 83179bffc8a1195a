import { createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'

/** A certificate that a server on this machine shows, and its private key. */
export type Certificate = { readonly certificate: string; readonly key: string }

/**
 * Makes a self-signed certificate for `localhost` and 127.0.0.1 (X.509 version 3, P-256), good for a day. Written out in
 * DER, so that neither OpenSSL's program nor a package is needed.
 */
export function makeCertificate(now = new Date()): Certificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const name = sequence(set(sequence(oid('55 04 03'), utf8('localhost'))))
  const signed = sequence(
    explicit(0, integer(Buffer.from([2]))),
    integer(Buffer.from([1])),
    ecdsaWithSha256,
    name,
    sequence(utcTime(now, -3_600_000), utcTime(now, 86_400_000)),
    name,
    spkiOf(publicKey),
    explicit(3, sequence(alternativeNames())),
  )
  const signature = sign('sha256', signed, privateKey)
  const der = sequence(signed, ecdsaWithSha256, bitString(signature))
  return {
    certificate: pem('CERTIFICATE', der),
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  }
}

function alternativeNames(): Buffer {
  const names = sequence(tagged(0x82, Buffer.from('localhost')), tagged(0x87, Buffer.from([127, 0, 0, 1])))
  return sequence(oid('55 1d 11'), tagged(0x04, names))
}

function spkiOf(key: KeyObject): Buffer {
  return createPublicKey(key.export({ type: 'spki', format: 'pem' })).export({ type: 'spki', format: 'der' })
}

function tagged(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts)
  const { length } = content
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...size]), content])
}

const sequence = (...parts: Buffer[]) => tagged(0x30, ...parts)
const set = (...parts: Buffer[]) => tagged(0x31, ...parts)
const integer = (bytes: Buffer) => tagged(0x02, bytes)
const utf8 = (text: string) => tagged(0x0c, Buffer.from(text))
const oid = (hex: string) => tagged(0x06, Buffer.from(hex.replaceAll(' ', ''), 'hex'))
const explicit = (n: number, part: Buffer) => tagged(0xa0 + n, part)
const bitString = (bytes: Buffer) => tagged(0x03, Buffer.from([0]), bytes)
const ecdsaWithSha256 = sequence(oid('2a 86 48 ce 3d 04 03 02'))

function utcTime(now: Date, offsetMs: number): Buffer {
  const digits = new Date(now.getTime() + offsetMs).toISOString().replace(/\D/g, '')
  return tagged(0x17, Buffer.from(`${digits.slice(2, 14)}Z`))
}

function pem(what: string, der: Buffer): string {
  const lines = der.toString('base64').match(/.{1,64}/g)!
  return `-----BEGIN ${what}-----\n${lines.join('\n')}\n-----END ${what}-----\n`
}
