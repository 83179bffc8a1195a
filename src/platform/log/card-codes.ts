import type { ByteSpan } from './decoded.ts'

/** Finds the three or four digits of a card verification code near a word that says what they are. */
export function findCardCodes(text: string, found: ByteSpan[]): void {
  for (const match of text.matchAll(cue)) {
    const end = match.index + match[0].length
    const behind = codeBehind(text, end) ?? encodedBehind(text, end)
    if (behind) found.push(behind)
    const before = codeBefore(text, match.index)
    if (before) found.push(before)
  }
}

// A cue is a word of its own or the last part of one, as in `card_cvc` and `cardCvc`. Inside random letters it is none.
const cue =
  /(?<![A-Za-z0-9])[Cc][Vv][CcVv]2?(?![a-z])|(?<=[a-z])C(?:vc|vv|VC|VV)2?(?![a-z])|\b(?:csc|CSC|cav2|CAV2)\b|(?<![A-Za-z0-9])(?:[Ss]ecurity|[Cc]ard|[Vv]erification|SECURITY|CARD|VERIFICATION)[ _-]?(?:[Cc]ode|[Vv]alue|CODE|VALUE)|보안[ _-]?(?:코드|번호)|카드[ _-]?인증/g

// The first number behind the cue counts, with a few words in between ("is", "was", "number", "값은").
const behind = /[^\d]{0,24}?(\d(?:[-. _]?\d){2,3})(?!\d)/y
const before = /(?<!\d)(\d(?:[-. _]?\d){2,3})[^\d\n]{0,16}$/

function codeBehind(text: string, start: number): ByteSpan | undefined {
  behind.lastIndex = start
  const match = behind.exec(text)
  return match ? { start: behind.lastIndex - match[1]!.length, end: behind.lastIndex } : undefined
}

function codeBefore(text: string, cueStart: number): ByteSpan | undefined {
  const from = Math.max(0, cueStart - 24)
  const match = before.exec(text.slice(from, cueStart))
  if (!match) return undefined
  const start = from + match.index
  return { start, end: start + match[1]!.length }
}

const word = /[^A-Za-z0-9]{0,8}([A-Za-z0-9]+={0,2})/y
const maxWords = 4
const maxWord = 12

/** A code alone in base64 or hexadecimal is too short to be seen without its cue. */
function encodedBehind(text: string, start: number): ByteSpan | undefined {
  const near = text.slice(start, start + 64)
  word.lastIndex = 0
  for (let i = 0; i < maxWords; i++) {
    const candidate = word.exec(near)?.[1]
    if (!candidate || candidate.length > maxWord) return undefined
    const end = start + word.lastIndex
    if (/^\d{3,4}$/.test(decoded(candidate))) return { start: end - candidate.length, end }
  }
  return undefined
}

function decoded(word: string): string {
  return Buffer.from(word, /^(?:3\d){3,4}$/.test(word) ? 'hex' : 'base64').toString('latin1')
}
