import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'

/** Encrypts what must be kept but not read in a dump: billing keys, contact data, webhook bodies, answers. */
export type Vault = {
  /**
   * `row` names the place the text is kept for (`payment_method:pm_1`): copied to another row it does not open. Its first
   * word is the purpose, and each purpose has a key of its own.
   */
  seal(text: string, row: string): Buffer
  open(sealed: Buffer, row: string): string
  /** Whether the first key sealed this. A rotation re-seals what answers false. */
  isCurrent(sealed: Buffer): boolean
}

export type VaultKey = { version: number; key: Buffer }

// Layout: 1 byte format, 4 bytes key version, 12 bytes nonce, 16 bytes tag, ciphertext.
const format = 1
const headerBytes = 5
const nonceBytes = 12
const tagBytes = 16

/** Opens a vault on its keys. All of them open, the first one seals. */
export function openVault(keys: readonly VaultKey[]): Vault {
  const sealing = keys[0]
  if (!sealing) throw new Error('A vault needs at least one key; set VAULT_KEYS.')
  const byVersion = new Map(keys.map(({ version, key }) => [version, derivedFrom(key)]))

  return {
    seal(text, row) {
      const header = headerOf(sealing.version)
      const nonce = randomBytes(nonceBytes)
      const key = byVersion.get(sealing.version)!(purposeOf(row))
      const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(boundTo(header, row))
      const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
      return Buffer.concat([header, nonce, cipher.getAuthTag(), body])
    },
    open(sealed, row) {
      const keyFor = byVersion.get(versionOf(sealed))
      if (!keyFor)
        throw new Error(`VAULT_KEYS lacks key version ${versionOf(sealed)}; add it back behind the first.`)
      const nonce = sealed.subarray(headerBytes, headerBytes + nonceBytes)
      const tag = sealed.subarray(headerBytes + nonceBytes, headerBytes + nonceBytes + tagBytes)
      const decipher = createDecipheriv('aes-256-gcm', keyFor(purposeOf(row)), nonce)
        .setAAD(boundTo(sealed.subarray(0, headerBytes), row))
        .setAuthTag(tag)
      const body = sealed.subarray(headerBytes + nonceBytes + tagBytes)
      return Buffer.concat([decipher.update(body), decipher.final()]).toString('utf8')
    },
    isCurrent: (sealed) => versionOf(sealed) === sealing.version,
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

function purposeOf(row: string): string {
  return row.split(':', 1)[0]!
}

/** The key for each purpose, derived once: HKDF-SHA256 of the vault key, without salt, over a label that names it. */
function derivedFrom(key: Buffer): (purpose: string) => Buffer {
  const derived = new Map<string, Buffer>()
  return (purpose) => {
    const known = derived.get(purpose)
    if (known) return known
    const made = Buffer.from(hkdfSync('sha256', key, '', `rankledger vault ${purpose}`, 32))
    derived.set(purpose, made)
    return made
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
