import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'

/** Encrypts what must be kept but not read in a dump: billing keys, contact data, webhook bodies. */
export type Vault = {
  /** `row` names the place the text is kept for (`payment_method:pm_1`): copied to another row it does not open. */
  seal(text: string, row: string): Buffer
  open(sealed: Buffer, row: string): string
  /** Whether the newest key sealed this. A rotation re-seals what answers false. */
  isCurrent(sealed: Buffer): boolean
}

export type VaultKey = { version: number; key: Buffer }

// Layout: 1 byte format, 4 bytes key version, 12 bytes nonce, 16 bytes tag, ciphertext.
const format = 1
const headerBytes = 5
const nonceBytes = 12
const tagBytes = 16

/** Opens a vault on its keys, newest first. All of them open, the first one seals. */
export function openVault(keys: readonly VaultKey[]): Vault {
  const newest = keys[0]
  if (!newest) throw new Error('A vault needs at least one key; set VAULT_KEYS.')
  const byVersion = new Map(keys.map(({ version, key }) => [version, key]))

  return {
    seal(text, row) {
      const header = headerOf(newest.version)
      const nonce = randomBytes(nonceBytes)
      const cipher = createCipheriv('aes-256-gcm', newest.key, nonce).setAAD(boundTo(header, row))
      const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
      return Buffer.concat([header, nonce, cipher.getAuthTag(), body])
    },
    open(sealed, row) {
      const key = byVersion.get(versionOf(sealed))
      if (!key)
        throw new Error(`VAULT_KEYS lacks key version ${versionOf(sealed)}; add it back behind the newest.`)
      const nonce = sealed.subarray(headerBytes, headerBytes + nonceBytes)
      const tag = sealed.subarray(headerBytes + nonceBytes, headerBytes + nonceBytes + tagBytes)
      const decipher = createDecipheriv('aes-256-gcm', key, nonce)
        .setAAD(boundTo(sealed.subarray(0, headerBytes), row))
        .setAuthTag(tag)
      const body = sealed.subarray(headerBytes + nonceBytes + tagBytes)
      return Buffer.concat([decipher.update(body), decipher.final()]).toString('utf8')
    },
    isCurrent: (sealed) => versionOf(sealed) === newest.version,
  }
}

/** Whatever passes through the vault is a secret of this process, so the log's last stage learns it. */
export function watchfulVault(vault: Vault, secrets: { addPassing(value: string): boolean }): Vault {
  return {
    ...vault,
    seal(text, row) {
      secrets.addPassing(text)
      return vault.seal(text, row)
    },
    open(sealed, row) {
      const text = vault.open(sealed, row)
      secrets.addPassing(text)
      return text
    },
  }
}

function headerOf(version: number): Buffer {
  const header = Buffer.alloc(headerBytes)
  header.writeUInt8(format, 0)
  header.writeUInt32BE(version, 1)
  return header
}

function versionOf(sealed: Buffer): number {
  if (sealed.length < headerBytes + nonceBytes + tagBytes || sealed.readUInt8(0) !== format) {
    throw new Error('This value was not sealed by this vault.')
  }
  return sealed.readUInt32BE(1)
}

function boundTo(header: Buffer, row: string): Buffer {
  return Buffer.concat([header, Buffer.from(row, 'utf8')])
}
