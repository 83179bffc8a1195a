import { isSensitiveName } from './sensitive-names.ts'

/**
 * Tells whether this reads like what a log field is for: words, codes, ids, paths. It is admission's own judgement
 * by shape and shares no code with the masking of values, so that a mistake in one is not a mistake in both.
 */
export function isPlainWord(text: string): boolean {
  if ((text.length === ownLength && ownId.test(text)) || known.has(text)) return true
  if (!looksPlain(text)) return false
  if (known.size >= maxKnown) known.clear()
  known.add(text)
  return true
}

// The same routes, workspaces and accounts come again and again. What was refused is not kept.
const known = new Set<string>()
const maxKnown = 5000

function looksPlain(text: string): boolean {
  if (lettersOnly.test(text)) return !credential.test(text)
  if (uuid.test(text)) return true
  return (
    !credential.test(text) &&
    !longRun.test(text) &&
    !holdsPersonalNumber(text) &&
    !hidesText(text) &&
    !namesSomethingSensitive(text)
  )
}

// Without a digit and a capital there is neither a number nor base64 or hexadecimal text that could hide one.
const lettersOnly = /^[a-z_./*{}-]{0,80}$/

// Our ids begin with the time, which keeps the first character at 1 or 2 until the year 2074. A card number that
// was put behind a prefix does not have this length.
const ownLength = 30
const ownId = /^(?!gh)[a-z]{3}_[12][0-9a-hjkmnp-tv-z]{25}$/
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

// The ways in which providers and we ourselves begin a credential.
const credential =
  /(?:^|[^a-z0-9])(?:g?[abprs]k|pm|rl|gh[opsru]|whs(?:ec|k)|xox[a-z])[_-]|billing-?_?key-|_secret_|eyj|akia/i

// No id that a person or a library makes has more than 32 letters and digits in a row.
const longRun = /[A-Za-z0-9]{33}/

/** Digits are joined across separators and then judged: as a phone, a resident number or a card would be. */
function holdsPersonalNumber(text: string): boolean {
  if (grouped.test(text)) return true
  let joined = ''
  let run = ''
  for (let i = 0; i <= text.length; i++) {
    const char = text.charAt(i)
    if (char >= '0' && char <= '9') {
      run += char
      joined += char
      continue
    }
    if (isPersonalNumber(run)) return true
    run = ''
    if (char === '-' || char === '.' || char === '_') continue
    if (isPersonalNumber(joined)) return true
    joined = ''
  }
  return false
}

const grouped = /(?:^|\D)\d{3}[-._]\d{3}[-._]\d{4}(?:\D|$)/

function isPersonalNumber(digits: string): boolean {
  const count = digits.length
  if (count < 9 || count > 19) return false
  if (count <= 11 && digits.startsWith('0') && !digits.startsWith('00')) return true
  if (count <= 13 && digits.startsWith('82')) return true
  if (count === 13 && monthAndDay.test(digits)) return true
  return count >= 12 && sumOfLuhn(digits) % 10 === 0
}

const monthAndDay = /^\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])/

function sumOfLuhn(digits: string): number {
  let sum = 0
  for (let i = 0; i < digits.length; i++) {
    const digit = digits.charCodeAt(digits.length - 1 - i) - 48
    sum += i % 2 === 0 ? digit : digit > 4 ? digit * 2 - 9 : digit * 2
  }
  return sum
}

/** Base64 and hexadecimal are told by what comes out: an id decodes to noise, hidden text to text. */
function hidesText(text: string): boolean {
  if (isText(text)) return true
  for (const word of text.split(/[^A-Za-z0-9]+/)) if (isText(word)) return true
  return false
}

function isText(word: string): boolean {
  if (
    word.length >= 14 &&
    /^[0-9a-f]+$/i.test(word) &&
    printable.test(Buffer.from(word, 'hex').toString('latin1'))
  ) {
    return true
  }
  if (word.length < 8 || !/^[\w-]+$/.test(word) || !/[A-Z]/.test(word) || !/[a-z0-9]/.test(word)) return false
  return printable.test(Buffer.from(word, 'base64').toString('latin1'))
}

const printable = /^[ -~]+$/

function namesSomethingSensitive(text: string): boolean {
  const colon = text.indexOf(':')
  return colon > 0 && text[colon - 1] !== '/' && isSensitiveName(text.slice(0, colon))
}
