import type { ByteSpan } from './decoded.ts'

/** Finds card numbers, resident registration numbers and phone numbers, with or without separators. */
export function findPersonalNumbers(text: string, found: ByteSpan[]): void {
  for (let at = nextDigit(text, 0); at < text.length; ) {
    const chain = chainAt(text, at)
    const end = chain[chain.length - 1]!.end
    if (!isShort(chain)) judgeChain(text, chain, found)
    at = nextDigit(text, end)
  }
}

/** Card numbers with 12 to 19 digits by issuer range, length and check digit. */
export function isCardNumber(digits: string): boolean {
  return isIssued(digits) && passesLuhn(digits)
}

/** YYMMDD and seven more, of which the first tells century and sex. The check digit is gone since October 2020. */
export function isResidentNumber(digits: string, isGrouped: boolean): boolean {
  if (digits.length !== 13 || !residentShape.test(digits)) return false
  if (isGrouped) return true
  return (digits >= '20' && /^.{6}[3478]/.test(digits)) || passesResidentCheck(digits)
}

/** Korean numbers with their leading zero or country code. */
export function isPhoneNumber(digits: string): boolean {
  if (digits.length > 13 || (digits[0] !== '0' && digits[0] !== '8')) return false
  return /^(?:01[016789]\d{7,8}|02\d{7,8}|0[3-6]\d{8,9}|070\d{7,8}|0?8210\d{8}|821[16789]\d{7,8})$/.test(
    digits,
  )
}

function nextDigit(text: string, from: number): number {
  let at = from
  while (at < text.length && !isDigit(text.charCodeAt(at))) at++
  return at
}

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57
}

/** Groups of digits with at most three separators between one and the next. */
function chainAt(text: string, start: number): ByteSpan[] {
  const groups: ByteSpan[] = []
  let at = start
  for (;;) {
    let end = at
    while (isDigit(text.charCodeAt(end))) end++
    groups.push({ start: at, end })
    let next = end
    while (next - end < 3 && separators.has(text.charAt(next))) next++
    if (!isDigit(text.charCodeAt(next))) return groups
    at = next
  }
}

const separators = new Set([' ', '-', '.', '_', '(', ')', '\t'])

const shortestNumber = 9

function isShort(chain: readonly ByteSpan[]): boolean {
  let digits = 0
  for (const { start, end } of chain) {
    digits += end - start
    if (digits >= shortestNumber) return false
  }
  return true
}

/** Looks at each group, at what neighbouring groups make together, and at the chain as a whole. */
function judgeChain(text: string, chain: readonly ByteSpan[], found: ByteSpan[]): void {
  for (let from = 0; from < chain.length; from++) {
    const { start } = chain[from]!
    const mayBegin = text[start - 1] === '+' ? anyDigit : beginnings
    let digits = ''
    for (let to = from; to < chain.length && digits.length <= longestCard; to++) {
      digits += text.slice(chain[to]!.start, Math.min(chain[to]!.end, chain[to]!.start + longestCard + 1))
      const pattern = mayBegin[digits.length]
      if (!pattern?.includes(digits.charAt(0)) || !isNumber(text, digits, chain, from, to)) continue
      // An id may stand beside other digits: it is enough that the first or the last group belongs to one.
      if (isInsideId(text, chain[from]!) || isInsideId(text, chain[to]!)) continue
      found.push({ start, end: chain[to]!.end })
    }
  }
}

// The first digits with which a number of this many digits can begin at all; most chains are done with after this.
const cards = '2345689'
const any = '0123456789'
const beginnings: Readonly<Record<number, string>> = {
  9: '0',
  10: any,
  11: '08',
  12: `08${cards}`,
  13: any,
  14: cards,
  15: cards,
  16: cards,
  17: cards,
  18: cards,
  19: cards,
}
const anyDigit: Readonly<Record<number, string>> = Object.fromEntries(
  Array.from({ length: 11 }, (_, i) => [9 + i, any]),
)

const longestCard = 19

function isNumber(
  text: string,
  digits: string,
  chain: readonly ByteSpan[],
  from: number,
  to: number,
): boolean {
  const start = chain[from]!.start
  if (text[start - 1] === '+' && digits[0] !== '0' && !isDigit(text.charCodeAt(start - 2))) return true
  if (from === to && text.slice(start - 2, start) === '0.') return false
  if (from === to) return isCardNumber(digits) || isResidentNumber(digits, false) || isPhoneNumber(digits)

  const isWhole = from === 0 && to === chain.length - 1
  if (isResidentNumber(digits, sizeOf(chain[from]!) === 6)) return isWhole || sizeOf(chain[from]!) === 6
  if (digits.length === 10 && to - from === 2 && sizes(chain, from, to) === '3,3,4') return true
  if (isPhoneNumber(digits)) return isWhole || phoneGrouping.test(sizes(chain, from, to))
  if (!isCardNumber(digits) || isDecimal(text, chain, from, to)) return false
  return isWhole || isCardGrouping(chain, from, to)
}

function sizeOf(group: ByteSpan): number {
  return group.end - group.start
}

function sizes(chain: readonly ByteSpan[], from: number, to: number): string {
  return chain
    .slice(from, to + 1)
    .map(sizeOf)
    .join()
}

const phoneGrouping = /^(?:[23],[34],4|2,[23],[34],4|3,[78])$/
const unevenCardGrouping = /^(?:4,6,[45]|6,4,6|6,\d+)$/

/** Groups of one size, of which the last may differ, or one of the uneven ways in which cards are printed. */
function isCardGrouping(chain: readonly ByteSpan[], from: number, to: number): boolean {
  const size = sizeOf(chain[from]!)
  let isEven = sizeOf(chain[to]!) <= 8
  for (let i = from; i < to; i++) isEven &&= sizeOf(chain[i]!) === size
  return isEven || unevenCardGrouping.test(sizes(chain, from, to))
}

/** `4.111111111111111` is a measured value. */
function isDecimal(text: string, chain: readonly ByteSpan[], from: number, to: number): boolean {
  return to === from + 1 && sizeOf(chain[from]!) <= 3 && text[chain[from]!.end] === '.'
}

/** Ids of ours, UUIDs and hashes have stretches of digits by chance. */
function isInsideId(text: string, { start, end }: ByteSpan): boolean {
  let from = start
  while (from > 0 && start - from < 80 && isWordCode(text.charCodeAt(from - 1))) from--
  let to = end
  while (to < text.length && to - end < 80 && isWordCode(text.charCodeAt(to))) to++
  return idShape.test(text.slice(from, to))
}

// A hash with fewer than six letters among 32 digits is as unlikely as it is likely that someone wrote a number.
const idShape =
  /^(?:[a-z]{3}_[12][0-9a-hjkmnp-tv-z]{25}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?=(?:\d*[a-f]){6})(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}))$/

function isWordCode(code: number): boolean {
  return (
    isDigit(code) || (code >= 65 && code <= 90) || (code >= 97 && code <= 122) || code === 95 || code === 45
  )
}

/** The issuer ranges of ISO/IEC 7812 that are in use, and Korea's domestic cards, which begin with 9. */
function isIssued(digits: string): boolean {
  const count = digits.length
  if (count < 12 || count > 19) return false
  const two = Number(digits.slice(0, 2))
  const four = Number(digits.slice(0, 4))
  switch (digits[0]) {
    case '4':
      return count === 13 || count === 16 || count === 19
    case '5':
      return two >= 51 && two <= 55 ? count === 16 : true
    case '6':
      return true
    case '2':
      return (four >= 2221 && four <= 2720 && count === 16) || (four >= 2200 && four <= 2204 && count >= 16)
    case '3':
      if (two === 34 || two === 37) return count === 15
      if (two === 35) return count >= 16
      return (two === 30 || two === 36 || two === 38 || two === 39) && count >= 14
    case '8':
      return two <= 82 && count >= 16
    default:
      return digits[0] === '9' && count === 16
  }
}

function passesLuhn(digits: string): boolean {
  let sum = 0
  let isDoubled = digits.length % 2 === 0
  for (let i = 0; i < digits.length; i++) {
    const digit = digits.charCodeAt(i) - 48
    const doubled = isDoubled ? digit * 2 : digit
    sum += doubled > 9 ? doubled - 9 : doubled
    isDoubled = !isDoubled
  }
  return sum % 10 === 0
}

const residentShape = /^\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{7}$/
const residentWeights = [2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5]

function passesResidentCheck(digits: string): boolean {
  let sum = 0
  for (let i = 0; i < 12; i++) sum += residentWeights[i]! * (digits.charCodeAt(i) - 48)
  const check = (11 - (sum % 11)) % 10
  // Foreigners' numbers (5 to 8) are checked against a digit that is two higher.
  return check === digits.charCodeAt(12) - 48 || (check + 2) % 10 === digits.charCodeAt(12) - 48
}
