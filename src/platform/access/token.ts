import { createHash, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'

/** `rl_<mode>_<id><secret><checksum>`: the id finds the row, the secret proves it, the checksum refuses typos unread. */
export type TokenMode = 'test' | 'live'

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const idLength = 12
const secretLength = 32
const checksumLength = 6
const form = new RegExp(
  `^rl_(test|live)_([0-9A-Za-z]{${idLength}})([0-9A-Za-z]{${secretLength}})([0-9A-Za-z]{${checksumLength}})$`,
)

export function newToken(mode: TokenMode): string {
  const open = `rl_${mode}_${randomText(idLength)}${randomText(secretLength)}`
  return open + checksumOf(open)
}

/** Whether the text has a token's shape and checksum, for this mode if one is given. Says nothing about validity. */
export function isToken(text: string, mode?: TokenMode): boolean {
  const match = form.exec(text)
  if (!match || (mode && match[1] !== mode)) return false
  return checksumOf(text.slice(0, -checksumLength)) === match[4]
}

export function tokenIdOf(token: string): string {
  return form.exec(token)?.[2] ?? ''
}

/** What is stored. The secret holds 190 random bits, so a plain hash cannot be guessed back. */
export function hashToken(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}

function checksumOf(text: string): string {
  let rest = crc32(text)
  let out = ''
  for (let at = 0; at < checksumLength; at++) {
    out = alphabet[rest % alphabet.length] + out
    rest = Math.floor(rest / alphabet.length)
  }
  return out
}

function randomText(length: number): string {
  return Array.from({ length }, () => alphabet[randomInt(alphabet.length)]).join('')
}
