import { findAddresses } from './addresses.ts'
import { findCardCodes } from './card-codes.ts'
import { findCredentials } from './credentials.ts'
import { type ByteSpan, mask, maskDecoded } from './decoded.ts'
import { findPersonalNumbers } from './personal-numbers.ts'
import { isList, type Plain } from './plain.ts'
import { rememberHarmless } from './remember-harmless.ts'

/**
 * Stage 3, values: whatever its name, text that is a card number, a verification code beside its cue, a resident
 * registration number, a phone number, an e-mail address or a credential is masked, however it is spelled.
 */
export function maskValues(value: Plain): Plain {
  if (typeof value === 'string') return maskText(value)
  if (typeof value === 'number')
    return isLong(value) && maskText(String(value)) !== String(value) ? mask : value
  if (typeof value !== 'object' || value === null) return value
  if (isList(value)) return value.map(maskValues)
  const masked: Record<string, Plain> = {}
  for (const key of Object.keys(value)) masked[maskText(key)] = maskValues(value[key]!)
  return masked
}

/** Masks a text, and skips the search where its characters rule out that anything can be found. */
export const maskText = rememberHarmless((text) =>
  isClearlyHarmless(text) ? text : maskDecoded(text, findValues),
)

export function findValues(text: string, found: ByteSpan[]): void {
  findPersonalNumbers(text, found)
  findCardCodes(text, found)
  findAddresses(text, found)
  findCredentials(text, found)
}

/**
 * No capital means no base64 and no JWT; fewer than three digits in all means no number, no code and no hexadecimal
 * text; no `@`, no escape, nothing beyond ASCII. What remains are credentials without digits, told by their beginning.
 */
function isClearlyHarmless(text: string): boolean {
  return harmless.test(text) && !credentialBeginning.test(text)
}

const harmless = /^[a-z_./:*{}, -]*(?:\d[a-z_./:*{}, -]*){0,2}$/
const credentialBeginning =
  /[abprs]k_|rl_|pm_|sec_|whsk_|key-|gh[a-z]_|_pat_|xox|akia|_secret|bearer|basic|portone|digest|-----/

/** Shorter numbers can be neither card nor resident number, and a phone number loses its zero. */
function isLong(value: number): boolean {
  return Math.abs(value) >= 1e11
}
