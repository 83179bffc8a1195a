import { endOfPem } from './credentials.ts'
import { type ByteSpan, mask, maskDecoded } from './decoded.ts'
import { isList, type Plain } from './plain.ts'
import { rememberHarmless } from './remember-harmless.ts'
import { isSensitiveName } from './sensitive-names.ts'

/**
 * Stage 2, names: whatever its value, what stands under a sensitive name is masked, at any depth: keys of objects,
 * header lists, and `name: value` or `name=value` inside text, which covers JSON in strings and query strings.
 */
export function maskNames(value: Plain): Plain {
  if (typeof value === 'string') return maskNamedText(value)
  if (typeof value !== 'object' || value === null) return value
  if (isList(value)) return maskList(value)
  const isPair = pairValue in value && pairNames.some((key) => isSensitive(value[key]))
  const masked: Record<string, Plain> = {}
  for (const key of Object.keys(value)) {
    const isMasked = isSensitiveName(key) || (isPair && key === pairValue)
    masked[maskNamedText(key)] = isMasked ? mask : maskNames(value[key]!)
  }
  return masked
}

// `{ name: 'authorization', value: '…' }` is how HAR files and some clients keep headers.
const pairNames = ['name', 'key', 'header', 'field']
const pairValue = 'value'

/** In a list, the value follows its name: `['authorization', 'Bearer …']` or the same flat, as Node keeps headers. */
function maskList(list: readonly Plain[]): Plain[] {
  return list.map((item, i) => (i > 0 && isSensitive(list[i - 1]) ? mask : maskNames(item)))
}

function isSensitive(value: Plain | undefined): boolean {
  return typeof value === 'string' && isSensitiveName(value)
}

const maskNamedText = rememberHarmless((text) =>
  cannotName.test(text) ? text : maskDecoded(text, findNamed),
)

// Without a sign that joins a name to a value, an escape that could spell one, or capitals as base64 has them,
// there is nothing to find; and hexadecimal text has many digits.
const cannotName = /^[a-z_./*{}, -]*(?:\d[a-z_./*{}, -]*){0,6}$/

/** For what a command was asked to print: there, `name` alone is the name of a plan or a task. */
export function maskNamedResult(text: string): string {
  return maskDecoded(text, (view, found) => findNamedBy(isSensitiveInResult, view, found))
}

function isSensitiveInResult(name: string): boolean {
  return name !== 'name' && isSensitiveName(name)
}

function findNamed(text: string, found: ByteSpan[]): void {
  findNamedBy(isSensitiveName, text, found)
}

/** Works backwards from each `:` and `=` to the name and forwards to the end of the value. */
function findNamedBy(isSensitive: (name: string) => boolean, text: string, found: ByteSpan[]): void {
  for (let at = nextJoint(text, 0); at < text.length; ) {
    if (!isSensitive(nameBefore(text, at))) {
      at = nextJoint(text, at + 1)
      continue
    }
    const span = valueBehind(text, at + 1)
    if (span.end > span.start) found.push(span)
    at = nextJoint(text, Math.max(span.end, at + 1))
  }
}

function nextJoint(text: string, from: number): number {
  joint.lastIndex = from
  return joint.test(text) ? joint.lastIndex - 1 : text.length
}

const joint = /[:=]/g

const maxGap = 12
const maxName = 64

/** Skips quotes, escapes, brackets and spaces, as in `card[cvc]=` and `\"cvc\" :`. */
function nameBefore(text: string, joint: number): string {
  let end = joint
  while (end > 0 && joint - end < maxGap && gap.has(text.charAt(end - 1))) end--
  let start = end
  while (start > 0 && end - start < maxName && isNameCode(text.charCodeAt(start - 1))) start--
  return text.slice(start, end)
}

const gap = new Set([' ', '"', "'", '`', '\\', ']', ')', '\t', '*'])

function isNameCode(code: number): boolean {
  return (
    (code >= 97 && code <= 122) ||
    (code >= 65 && code <= 90) ||
    (code >= 48 && code <= 57) ||
    code === 95 ||
    code === 45 ||
    code > 127
  )
}

/** A quoted value ends with its quote, an object or list with its bracket, anything else where the next may begin. */
function valueBehind(text: string, from: number): ByteSpan {
  let start = from
  while (start < text.length && blank.has(text.charAt(start))) start++
  let quote = start
  while (text[quote] === '\\') quote++
  const sign = text.charAt(quote)
  if (quotes.has(sign)) return { start: quote + 1, end: endOfQuoted(text, quote + 1, sign, quote - start) }
  if (sign === '{' || sign === '[') return { start, end: endOfBracket(text, start) }
  if (text.startsWith('-----BEGIN ', start)) return { start, end: endOfPem(text, start) }
  literal.lastIndex = start
  if (literal.test(text)) return { start, end: literal.lastIndex }
  bare.lastIndex = start
  return { start, end: bare.test(text) ? bare.lastIndex : start }
}

const blank = new Set([' ', '\t', '>', '='])
const quotes = new Set(['"', "'", '`'])

// A number or a truth value in JSON ends at the comma.
const literal = /(?:-?\d[\d.eE+-]*|true|false|null)(?=[,}\]])/y

// A bare value may contain spaces and commas: a person's name does. Masking too much of a sentence does no harm.
const bare = /[^&;\r\n"'`}\]]+/y

/** A quote behind more backslashes than the opening one had belongs to the value. */
function endOfQuoted(text: string, start: number, sign: string, backslashes: number): number {
  for (let end = text.indexOf(sign, start); end >= 0; end = text.indexOf(sign, end + 1)) {
    let slashes = 0
    while (end - slashes > start && text[end - slashes - 1] === '\\') slashes++
    if (slashes <= backslashes) return end - slashes
  }
  return text.length
}

function endOfBracket(text: string, start: number): number {
  let depth = 0
  for (let end = start; end < text.length; end++) {
    const char = text.charCodeAt(end)
    if (char === 0x7b || char === 0x5b) depth++
    else if ((char === 0x7d || char === 0x5d) && --depth === 0) return end + 1
  }
  return text.length
}
