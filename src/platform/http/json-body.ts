import { isUtf8 } from 'node:buffer'
import { type Refusal, refuseRequest } from '../refusal.ts'

const deepest = 16
const mostFields = 256
const mostFieldsInAll = 50_000
// As many as 256 KiB can hold: there a list that is too long is told by its own name.
const mostValues = 135_000

/**
 * Parses a body. Its shape is measured on the text first, so that a hostile nest, an object of countless names or a
 * list of countless values costs one scan: no stack, no memory, and none of the time that parsing it would take.
 */
export function parseJson(text: string): unknown {
  requireModestShape(text)
  try {
    return JSON.parse(text)
  } catch {
    throw refuseRequest('invalid_json')
  }
}

/** The text of a body. Bytes that are no UTF-8 are refused; decoding would store another text than was sent. */
export function textOf(bytes: Buffer): string {
  if (!isUtf8(bytes)) throw refuseRequest('invalid_json', { message: 'The request body is not valid UTF-8.' })
  return bytes.toString('utf8')
}

/** Text that is no JSON may pass: parsing refuses it. */
function requireModestShape(text: string): void {
  // How many names the object at each level has; a list has none.
  const fields = new Uint32Array(deepest + 2)
  let depth = 0
  let fieldsInAll = 0
  let values = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === quote) at = endOfString(text, at)
    else if (code === comma) {
      if (++values > mostValues) throw tooMuch('too_many', `no route takes ${mostValues} values at once`)
    } else if (code === colon) {
      if (++fieldsInAll > mostFieldsInAll)
        throw tooMuch('too_many', `no route takes ${mostFieldsInAll} fields at once`)
      if (++fields[depth]! > mostFields)
        throw tooMuch('unknown_field', `no route takes an object of more than ${mostFields} fields`)
    } else if (code === openBrace || code === openBracket) {
      if (++depth > deepest)
        throw refuseRequest('invalid_json', { message: `The JSON is nested deeper than ${deepest} levels.` })
      fields[depth] = 0
    } else if ((code === closeBrace || code === closeBracket) && depth > 0) depth--
  }
}

function tooMuch(code: string, why: string): Refusal {
  return refuseRequest('validation_failed', {
    details: [{ path: 'body', code, message: `This is too much: ${why}.` }],
  })
}

const comma = 0x2c
const colon = 0x3a
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
