import { createDecipheriv, hkdfSync } from 'node:crypto'

export type Key = { readonly version: number; readonly key: Buffer }

/** Opens a sealed value as the decision page describes it, without any code of the service. Throws where it does not open. */
export function openSealed(keys: readonly Key[], sealed: Buffer, row: string): string {
  const version = versionOf(sealed)
  const found = keys.find((one) => one.version === version)
  if (!found) throw new Error(`sealed with key ${version}`)
  const label = `rankledger vault ${row.slice(0, row.indexOf(':'))}`
  const key = Buffer.from(hkdfSync('sha256', found.key, Buffer.alloc(0), label, 32))
  const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(5, 17))
    .setAAD(Buffer.concat([sealed.subarray(0, 5), Buffer.from(row)]))
    .setAuthTag(sealed.subarray(17, 33))
  return Buffer.concat([decipher.update(sealed.subarray(33)), decipher.final()]).toString()
}

function versionOf(sealed: Buffer): number {
  return sealed.readUInt32BE(1)
}
