/** A stretch of text, end exclusive. */
export type ByteSpan = { readonly start: number; readonly end: number }

/** Reports what it finds in a text. Must take time linear in its length. */
export type Finder = (text: string, found: ByteSpan[]) => void

export const mask = '[masked]'

/**
 * Replaces what a finder finds, also where the text spells it differently: percent, `\u` and `&#` escapes, full-width
 * and other digits, zero-width characters, base64 and hexadecimal, and these inside one another.
 */
export function maskDecoded(text: string, find: Finder): string {
  const found: ByteSpan[] = []
  findDecoded(text, find, found, 0)
  return found.length === 0 ? text : replaceSpans(text, found)
}

const maxDepth = 3
const maxUnescapes = 3

function findDecoded(text: string, find: Finder, found: ByteSpan[], depth: number): void {
  find(text, found)
  findEmbedded(text, find, found, depth)
  if (!respelled.test(text)) return

  // Each way of reading is searched on its own: what one decoding reveals, the next may run together with its
  // neighbours.
  let view: View = { text, origin: null }
  for (let i = 0; i < maxUnescapes; i++) {
    const next = unescaped(view)
    if (next === view) break
    view = next
    findInView(view, find, found, depth)
  }
  const plain = folded(view)
  if (plain !== view) findInView(plain, find, found, depth)
}

const respelled = /[%\\&\u0080-\uffff]/

/** A reading of the text. `origin[i]` is where its i-th character came from; null means from the same place. */
type View = { readonly text: string; readonly origin: Uint32Array | null }

function findInView(view: View, find: Finder, found: ByteSpan[], depth: number): void {
  const inView: ByteSpan[] = []
  find(view.text, inView)
  findEmbedded(view.text, find, inView, depth)
  for (const { start, end } of inView) {
    found.push(view.origin ? { start: view.origin[start]!, end: view.origin[end]! } : { start, end })
  }
}

/** Resolves one layer of escapes. Returns the same view if there are none. */
function unescaped(view: View): View {
  const { text } = view
  if (!/[%\\&]/.test(text)) return view
  const origin = new Uint32Array(text.length + 1)
  let filled = 0
  let out = ''
  let kept = 0
  let at = 0
  const take = (decoded: string, length: number) => {
    for (let i = kept; i < at; i++) origin[filled++] = i
    out += text.slice(kept, at) + decoded
    for (let i = 0; i < decoded.length; i++) origin[filled++] = at
    at += length
    kept = at
  }
  while (at < text.length) {
    const code = text.charCodeAt(at)
    if (code === percent) {
      const run = percentRun(text, at)
      if (run) take(run.decoded, run.length)
      else at++
    } else if (code === backslash) {
      const character = escapeAt(text, at)
      if (character) take(character.decoded, character.length)
      else at++
    } else if (code === ampersand) {
      const entity = entityAt(text, at)
      if (entity) take(entity.decoded, entity.length)
      else at++
    } else at++
  }
  if (kept === 0 && out === '') return view
  for (let i = kept; i <= text.length; i++) origin[filled++] = i
  out += text.slice(kept)
  return { text: out, origin: compose(view.origin, origin) }
}

const percent = 0x25
const backslash = 0x5c
const ampersand = 0x26

type Decoded = { readonly decoded: string; readonly length: number }

/** One character that was written as one or several percent-encoded UTF-8 bytes. */
function percentRun(text: string, at: number): Decoded | undefined {
  const first = percentByte(text, at)
  if (first < 0) return undefined
  if (first < 0x80) return { decoded: String.fromCharCode(first), length: 3 }
  const bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2
  let point = first & (0xff >> (bytes + 1))
  for (let i = 1; i < bytes; i++) {
    const next = percentByte(text, at + i * 3)
    if (next < 0x80 || next > 0xbf) return { decoded: String.fromCharCode(first), length: 3 }
    point = (point << 6) | (next & 0x3f)
  }
  return { decoded: point > 0x10ffff ? '?' : String.fromCodePoint(point), length: bytes * 3 }
}

function percentByte(text: string, at: number): number {
  if (text.charCodeAt(at) !== percent) return -1
  return hexNumber(text, at + 1, 2)
}

/** `\u0034`, `\x34`, `\u{34}` and `\/`, with any number of backslashes, as escaping an escape leaves them. */
function escapeAt(text: string, at: number): Decoded | undefined {
  let i = at
  while (text.charCodeAt(i) === backslash) i++
  const letter = text[i]
  if (letter === 'u' && text[i + 1] === '{') {
    const close = i + text.slice(i, i + 9).indexOf('}')
    const point = close > i ? hexNumber(text, i + 2, close - i - 2) : -1
    if (point >= 0 && point <= 0x10ffff) {
      return { decoded: String.fromCodePoint(point), length: close + 1 - at }
    }
  }
  const width = letter === 'u' ? 4 : letter === 'x' ? 2 : 0
  const code = width > 0 ? hexNumber(text, i + 1, width) : -1
  if (code >= 0) return { decoded: String.fromCharCode(code), length: i + 1 + width - at }
  const simple = letter === undefined ? undefined : simpleEscapes.get(letter)
  // A run that escapes nothing is passed as a whole: looking at each of its backslashes again would be quadratic.
  return simple ? { decoded: simple, length: i + 1 - at } : { decoded: text.slice(at, i), length: i - at }
}

const simpleEscapes = new Map([
  ['n', '\n'],
  ['r', '\r'],
  ['t', '\t'],
  ['"', '"'],
  ["'", "'"],
  ['/', '/'],
])

/** `&#52;` and `&#x34;`. */
function entityAt(text: string, at: number): Decoded | undefined {
  const match = /^&#(?:x([0-9a-f]{1,6})|(\d{1,7}));/i.exec(text.slice(at, at + 12))
  if (!match) return undefined
  const point = match[1] ? Number.parseInt(match[1], 16) : Number(match[2])
  return { decoded: point > 0x10ffff ? '?' : String.fromCodePoint(point), length: match[0].length }
}

function hexNumber(text: string, at: number, digits: number): number {
  let value = 0
  for (let i = at; i < at + digits; i++) {
    const digit = hexDigit(text.charCodeAt(i))
    if (digit < 0) return -1
    value = value * 16 + digit
  }
  return digits > 0 ? value : -1
}

function hexDigit(code: number): number {
  if (code >= 48 && code <= 57) return code - 48
  const lower = code | 32
  return lower >= 97 && lower <= 102 ? lower - 87 : -1
}

/** Writes look-alikes as ASCII and drops what cannot be seen. Returns the same view if nothing changes. */
function folded(view: View): View {
  const { text } = view
  if (!/[\u0080-\uffff]/.test(text)) return view
  const origin = new Uint32Array(text.length + 1)
  let filled = 0
  let out = ''
  for (let i = 0; i < text.length; ) {
    const point = text.codePointAt(i)!
    const size = point > 0xffff ? 2 : 1
    const plain = point < 0x80 ? text[i]! : foldPoint(point)
    out += plain
    for (let k = 0; k < plain.length; k++) origin[filled++] = i
    i += size
  }
  origin[filled] = text.length
  return out === text ? view : { text: out, origin: compose(view.origin, origin) }
}

function foldPoint(point: number): string {
  const known = foldedPoints.get(point)
  if (known !== undefined) return known
  const plain = readPoint(point)
  if (foldedPoints.size < maxFoldedPoints) foldedPoints.set(point, plain)
  return plain
}

const foldedPoints = new Map<number, string>()
const maxFoldedPoints = 4096

function readPoint(point: number): string {
  const char = String.fromCodePoint(point)
  if (point >= 0xac00 && point <= 0xd7a3) return char
  if (unseen.test(char)) return ''
  if (/\p{Zs}/u.test(char)) return ' '
  if (/\p{Pd}/u.test(char) || point === 0x2212 || point === 0x30fb || point === 0xb7) return '-'
  const narrow = char.normalize('NFKC')
  if (narrow.length === 1 && narrow < '\x80') return narrow
  return /\p{Nd}/u.test(char) ? String(digitValue(point)) : char
}

const unseen = /[\p{Cf}\p{Mn}\u115f\u1160\u3164\uffa0\u180e]/u

/** Unicode keeps the ten digits of a script together and in order, so the value is the distance to its zero. */
function digitValue(point: number): number {
  let zero = point
  while (point - zero < 9 && /\p{Nd}/u.test(String.fromCodePoint(zero - 1))) zero--
  return point - zero
}

function compose(outer: Uint32Array | null, inner: Uint32Array): Uint32Array {
  return outer ? inner.map((i) => outer[i]!) : inner
}

/** Looks into words that are text in base64 or hexadecimal. */
function findEmbedded(text: string, find: Finder, found: ByteSpan[], depth: number): void {
  if (depth >= maxDepth || text.length < minBase64) return
  for (let start = 0; start < text.length; start++) {
    let end = start
    let capitals = 0
    let digits = 0
    for (; end < text.length; end++) {
      const sextet = sextets[text.charCodeAt(end)] ?? 255
      if (sextet === 255) break
      if (sextet < 26) capitals++
      else if (sextet >= 52 && sextet < 62) digits++
    }
    // Bytes of ASCII begin with a zero bit, so base64 of more than a few of them has capitals; hexadecimal of
    // ASCII is at least half digits.
    if (capitals > 0 && end - start >= minBase64) findInBase64(text, start, end, find, found, depth)
    if (digits * 2 >= minHex) findInHex(text, start, end, find, found, depth)
    start = end
  }
}

const minBase64 = 8
const minHex = 14
const minText = 6

// 255 stands for characters outside both base64 alphabets.
const sextets = new Uint8Array(128).fill(255)
const base64Digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'
for (let i = 0; i < base64Digits.length; i++) sextets[base64Digits.charCodeAt(i)] = i
sextets['+'.charCodeAt(0)] = 62
sextets['-'.charCodeAt(0)] = 62
sextets['/'.charCodeAt(0)] = 63
sextets['_'.charCodeAt(0)] = 63

/** The whole word is tried, then the parts between `/ + - _`, each also from its second, third and fourth character. */
function findInBase64(
  text: string,
  start: number,
  end: number,
  find: Finder,
  found: ByteSpan[],
  depth: number,
): void {
  if (holdsBase64(text, start, end, find, depth)) {
    found.push({ start, end })
    return
  }
  for (let from = start; from < end; ) {
    let to = from
    while (to < end && sextets[text.charCodeAt(to)]! < 62) to++
    const isWhole = from === start && to === end
    if (!isWhole && to - from >= minBase64 && holdsBase64(text, from, to, find, depth)) {
      found.push({ start: from, end: to })
    }
    from = to + 1
  }
}

function holdsBase64(text: string, start: number, end: number, find: Finder, depth: number): boolean {
  for (let shift = 0; shift < 4; shift++) {
    const bytes = base64Bytes(text, start + shift, end)
    if (bytes.length < minText) continue
    if (holds(textOf(bytes), find, depth)) return true
    // Where all of it is text, reading it from its second character gives noise.
    if (bytes.length >= Math.floor(((end - start - shift) * 3) / 4) - 1) return false
  }
  return false
}

function holds(decoded: string, find: Finder, depth: number): boolean {
  const inside: ByteSpan[] = []
  findDecoded(decoded, find, inside, depth + 1)
  return inside.length > 0
}

/** Decodes as long as text comes out; noise ends it within a few bytes. */
function base64Bytes(text: string, start: number, end: number): number[] {
  const bytes: number[] = []
  let bits = 0
  let held = 0
  let awaited = 0
  for (let i = start; i < end; i++) {
    held = ((held << 6) | sextets[text.charCodeAt(i)]!) & 0xffff
    bits += 6
    if (bits < 8) continue
    bits -= 8
    const byte = (held >> bits) & 0xff
    awaited = awaitedAfter(byte, awaited)
    if (awaited < 0) break
    bytes.push(byte)
  }
  return bytes
}

function findInHex(
  text: string,
  start: number,
  end: number,
  find: Finder,
  found: ByteSpan[],
  depth: number,
): void {
  for (let from = start; from < end; ) {
    let to = from
    while (to < end && hexDigit(text.charCodeAt(to)) >= 0) to++
    if (to - from >= minHex) {
      for (const shift of [0, 1]) {
        const bytes = hexBytes(text, from + shift, to)
        if (bytes.length >= minText && holds(textOf(bytes), find, depth)) {
          found.push({ start: from, end: to })
          break
        }
      }
    }
    from = to + 1
  }
}

function hexBytes(text: string, start: number, end: number): number[] {
  const bytes: number[] = []
  let awaited = 0
  for (let i = start; i + 1 < end; i += 2) {
    const byte = hexDigit(text.charCodeAt(i)) * 16 + hexDigit(text.charCodeAt(i + 1))
    awaited = awaitedAfter(byte, awaited)
    if (awaited < 0) break
    bytes.push(byte)
  }
  return bytes
}

/** How many bytes of a UTF-8 character are still to come after this one, or -1 if this is no text. */
function awaitedAfter(byte: number, awaited: number): number {
  if (awaited > 0) return byte >= 0x80 && byte < 0xc0 ? awaited - 1 : -1
  if (byte >= 0x20 && byte < 0x7f) return 0
  if (byte >= 0xc2 && byte < 0xf5) return byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3
  return byte === 0x0a || byte === 0x0d || byte === 0x09 ? 0 : -1
}

function textOf(bytes: number[]): string {
  return Buffer.from(bytes).toString('utf8')
}

function replaceSpans(text: string, found: ByteSpan[]): string {
  found.sort((a, b) => a.start - b.start)
  let out = ''
  let at = 0
  for (const { start, end } of found) {
    if (end <= at) continue
    if (start >= at) out += text.slice(at, start) + mask
    at = end
  }
  return out + text.slice(at)
}
