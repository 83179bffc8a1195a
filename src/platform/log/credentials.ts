import type { ByteSpan } from './decoded.ts'

/** Finds keys, tokens, JWTs and PEM blocks by how they begin, and 32 random bytes or more by their length. */
export function findCredentials(text: string, found: ByteSpan[]): void {
  findMatches(text, strongPrefix, found)
  findMatches(text, shortPrefix, found)
  findKeys32(text, found)
  findLongKeys(text, found)
  findSchemes(text, found)
  findJwts(text, found)
  findPemBlocks(text, found)
}

// Stripe, Toss Payments, Standard Webhooks, PortOne, our own tokens, and what else commonly lies about. A setting that ends in
// _SECRET_KEY is named in sentences that say which one to correct; behind it a sentence goes on or ends, in JSON with a quote.
const strongPrefix =
  /(?:(?:[prs]k|rl|bk|ak)_(?:live|test)_|(?:live|test)_g?[sc]k_|whs(?:ec|k)_|billing-key-|gh[oprsu]_|github_pat_|xox[abeprs]-|akia|_secret_(?!key(?:[,;]|\.?(?:["\s]|$))))[A-Za-z0-9_+/=.~-]{2,}/gi

// Two letters are also the end of longer words, so these need a boundary in front. `rl_` and 40 hexadecimal digits are no
// token but the reference of a payment, by which an operator finds it at the provider.
const shortPrefix =
  /(?<![A-Za-z0-9])(?:bk_[A-Za-z0-9_=+/-]{2,}|pm_[A-Za-z0-9_]{6,}|(?!rl_[0-9a-f]{40}(?![A-Za-z0-9_]))(?:sk|ak|rl)_[A-Za-z0-9_]{8,})/gi

// Vault keys and the billing keys of Toss Payments are 43 characters and mostly a padding. Where the padding shows
// the end, a path may stand directly in front; without it, the whole word must have that length.
const longWord = /[A-Za-z0-9+/_-]{43,}=?/g
const key32 = 43

function findKeys32(text: string, found: ByteSpan[]): void {
  for (const match of text.matchAll(longWord)) {
    const end = match.index + match[0].length
    const isPadded = match[0].endsWith('=') && text[end] !== '='
    const word = isPadded ? match[0].slice(-key32 - 1) : match[0].slice(match[0].lastIndexOf('/') + 1)
    if (isMixed(word) && (isPadded || word.length === key32)) found.push({ start: end - word.length, end })
  }
}

// PortOne's API secrets have no beginning of their own. No word that anybody says or any id of a library is as long.
const longRun = /[A-Za-z0-9]{44,}/g

function findLongKeys(text: string, found: ByteSpan[]): void {
  for (const match of text.matchAll(longRun)) {
    const [word] = match
    if (isMixed(word)) found.push({ start: match.index, end: match.index + word.length })
  }
}

function isMixed(word: string): boolean {
  return (
    /[A-Z]/.test(word) &&
    /[a-z]/.test(word) &&
    (/\d/.test(word) || word.endsWith('=')) &&
    !migrationName.test(word)
  )
}

// A time and words, which some migrations have as many letters of as a key.
const migrationName = /^\d{8}T\d{4}(?:-[a-z]+)+$/

function findMatches(text: string, pattern: RegExp, found: ByteSpan[]): void {
  for (const match of text.matchAll(pattern)) {
    found.push({ start: match.index, end: match.index + match[0].length })
  }
}

const scheme = /(?:bearer|basic|portone|digest)[ \t]{1,8}["']?/gi
const schemeValue = /[A-Za-z0-9._~+/=:-]{8,}/y

/** What follows the name of an HTTP authentication scheme, unless it is an ordinary word. */
function findSchemes(text: string, found: ByteSpan[]): void {
  for (const match of text.matchAll(scheme)) {
    const start = match.index + match[0].length
    schemeValue.lastIndex = start
    const value = schemeValue.exec(text)?.[0]
    if (value && /[A-Z0-9=_]/.test(value.slice(1))) found.push({ start, end: start + value.length })
  }
}

/** `eyJ` is how base64 of `{"` begins. */
function findJwts(text: string, found: ByteSpan[]): void {
  for (let start = text.indexOf('eyJ'); start >= 0; ) {
    const header = endOfSegment(text, start)
    const payload = text[header] === '.' ? endOfSegment(text, header + 1) : header
    if (payload > header + 1) {
      const signature = text[payload] === '.' ? endOfSegment(text, payload + 1) : payload
      found.push({ start, end: signature })
    }
    start = text.indexOf('eyJ', Math.max(payload, start + 3))
  }
}

function endOfSegment(text: string, start: number): number {
  segment.lastIndex = start
  return segment.test(text) ? segment.lastIndex : start
}

const segment = /[A-Za-z0-9_-]+/y

function findPemBlocks(text: string, found: ByteSpan[]): void {
  for (let start = text.indexOf('-----BEGIN '); start >= 0; ) {
    const end = endOfPem(text, start)
    found.push({ start, end })
    start = text.indexOf('-----BEGIN ', end)
  }
}

/** Where the block that starts here ends. One that is cut off ends with the text. */
export function endOfPem(text: string, start: number): number {
  const close = text.indexOf('-----END ', start)
  if (close < 0) return text.length
  const dashes = text.indexOf('-----', close + 9)
  return dashes < 0 || dashes - close > 100 ? close + 9 : dashes + 5
}
