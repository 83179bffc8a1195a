import { refuse } from '../refusal.ts'

const deepest = 16

/** Parses a body. Depth is measured on the text first, so that a hostile nest costs one scan and no stack. */
export function parseJson(text: string): unknown {
  if (depthOf(text) > deepest)
    throw refuse('invalid_json', { message: `The JSON is nested deeper than ${deepest} levels.` })
  try {
    return JSON.parse(text)
  } catch {
    throw refuse('invalid_json')
  }
}

function depthOf(text: string): number {
  let depth = 0
  let most = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === quote) at = endOfString(text, at)
    else if (code === openBrace || code === openBracket) most = Math.max(most, ++depth)
    else if (code === closeBrace || code === closeBracket) depth--
  }
  return most
}

const quote = 0x22
const backslash = 0x5c
const openBrace = 0x7b
const closeBrace = 0x7d
const openBracket = 0x5b
const closeBracket = 0x5d

function endOfString(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at !== -1; at = text.indexOf('"', at + 1)) {
    let slashes = 0
    while (text.charCodeAt(at - 1 - slashes) === backslash) slashes++
    if (slashes % 2 === 0) return at
  }
  return text.length
}
