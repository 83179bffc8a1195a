/** The exact values that must never leave this process: keys, passwords, tokens, billing keys in use. */
export type SecretSet = {
  /** Keeps a value for as long as the process lives. Returns false for one too short to be told from ordinary text. */
  add(value: string): boolean
  /** Keeps a value among the latest ones; for billing keys and tokens, of which there are more than fit in memory. */
  addPassing(value: string): boolean
  remove(value: string): void
  readonly size: number
  /** Overwrites what it finds, in the line's own bytes or a copy. Returns the line itself if there is nothing. */
  cover(line: Uint8Array): Uint8Array
}

const shortestSecret = 6

export function createSecretSet({ maxPassing = 2000 } = {}): SecretSet {
  const index = createIndex()
  const lasting = new Map<string, readonly Filed[]>()
  const passing = new Map<string, readonly Filed[]>()

  const file = (value: string): Filed[] => spellings(value).map(index.add)
  const remove = (value: string) => {
    const filed = lasting.get(value) ?? passing.get(value) ?? []
    lasting.delete(value)
    passing.delete(value)
    filed.forEach(index.remove)
  }

  return {
    add(value) {
      if (Buffer.byteLength(value) < shortestSecret) return false
      if (lasting.has(value)) return true
      lasting.set(value, passing.get(value) ?? file(value))
      passing.delete(value)
      return true
    },
    addPassing(value) {
      if (Buffer.byteLength(value) < shortestSecret) return false
      if (lasting.has(value)) return true
      // Deleting and adding again moves a value to the end of the map's order, away from being forgotten.
      const filed = passing.get(value) ?? file(value)
      passing.delete(value)
      passing.set(value, filed)
      if (passing.size > maxPassing) remove(passing.keys().next().value!)
      return true
    },
    remove,
    get size() {
      return lasting.size + passing.size
    },
    cover: index.cover,
  }
}

/** The ways in which a value is written into URLs, headers, JSON and dumps. */
function spellings(value: string): string[] {
  const bytes = Buffer.from(value)
  const hex = bytes.toString('hex')
  const pairs = hex.match(/../g)!
  const component = percentEncoded(value)
  const json = JSON.stringify(value).slice(1, -1)
  const units = Array.from({ length: value.length }, (_, i) =>
    value.charCodeAt(i).toString(16).padStart(4, '0'),
  )
  const every = [
    value,
    json,
    JSON.stringify(json).slice(1, -1),
    component,
    component.replace(/%../g, (byte) => byte.toLowerCase()),
    percentEncoded(component),
    `%${pairs.join('%')}`,
    `%${pairs.join('%').toUpperCase()}`,
    hex,
    hex.toUpperCase(),
    `\\u${units.join('\\u')}`,
    `\\\\u${units.join('\\\\u')}`,
    ...base64Spellings(bytes),
  ]
  return [...new Set(every)].filter((spelling) => Buffer.byteLength(spelling) >= shortestSecret)
}

/** Like encodeURIComponent, which throws on half a surrogate pair; going through bytes replaces those. */
function percentEncoded(value: string): string {
  return encodeURIComponent(Buffer.from(value).toString())
}

/** In base64, a value looks different behind zero, one or two other bytes. The edges that mix with them are cut. */
function base64Spellings(bytes: Buffer): string[] {
  const spelled: string[] = []
  for (const before of [0, 1, 2]) {
    const padded = Buffer.concat([Buffer.alloc(before), bytes])
    const whole = Math.floor((padded.length * 8) / 6)
    const from = Math.ceil((before * 8) / 6)
    const base64 = padded.toString('base64').slice(from, whole)
    spelled.push(base64, base64.replaceAll('+', '-').replaceAll('/', '_'))
  }
  return spelled
}

/** Its bytes are kept one to a character: a text takes a fraction of the memory of a small buffer. */
type Pattern = { readonly text: string; readonly anchor: number }

/** Where a pattern is kept, so that it is taken out without a search. */
type Filed = { readonly hash: number; readonly pattern: Pattern }

/**
 * Finds many patterns in one pass. Each pattern is filed under one window of six of its bytes, chosen to be the
 * rarest, because keys of one provider all begin alike; the line's windows are hashed and looked up. Most of them
 * are nobody's, which three bits of one word tell; so small a filter stays close to the processor.
 */
function createIndex() {
  // Nearly all hold one; some windows, of escapes above all, are shared by thousands.
  const buckets = new Map<number, Pattern | Set<Pattern>>()
  let filter = new Int32Array(1 << 11)
  let count = 0
  // Their marks stay until the filter is made anew: one bit may stand for many.
  let removed = 0

  const mark = (hash: number) => {
    filter[wordOf(hash) & (filter.length - 1)]! |=
      (1 << (hash & 31)) | (1 << ((hash >>> 5) & 31)) | (1 << ((hash >>> 10) & 31))
  }

  const markAll = (words: number) => {
    filter = new Int32Array(words)
    removed = 0
    for (const known of buckets.keys()) mark(known)
  }

  const add = (spelling: string): Filed => {
    const text = byteText(spelling)
    const { anchor, hash } = rarestWindow(text, (window) => usersOf(buckets.get(window)))
    const pattern = { text, anchor }
    const bucket = buckets.get(hash)
    if (bucket instanceof Set) bucket.add(pattern)
    else buckets.set(hash, bucket ? new Set([bucket, pattern]) : pattern)
    count++
    if (count > filter.length * 2) markAll(filter.length * 2)
    else mark(hash)
    return { hash, pattern }
  }

  const remove = ({ hash, pattern }: Filed) => {
    const bucket = buckets.get(hash)
    if (bucket instanceof Set && bucket.size > 1) bucket.delete(pattern)
    else buckets.delete(hash)
    count--
    if (++removed > filter.length) markAll(filter.length)
  }

  const cover = (line: Uint8Array): Uint8Array => {
    if (count === 0 || line.length < shortestSecret) return line
    const hits: [number, number][] = []
    const marks = filter
    const lastWord = marks.length - 1
    // The window's first two bytes and its last four. Until it is full it is nobody's.
    let first = 0
    let last = 0
    for (let end = 0; end < line.length; end++) {
      first = ((first << 8) | (last >>> 24)) & 0xffff
      last = (last << 8) | line[end]!
      const hash = hashOf(first, last)
      const word = marks[wordOf(hash) & lastWord]!
      const isMarked =
        (word >>> (hash & 31)) & (word >>> ((hash >>> 5) & 31)) & (word >>> ((hash >>> 10) & 31)) & 1
      if (isMarked === 0 || end < shortestSecret - 1) continue
      const bucket = buckets.get(hash)
      if (!bucket) continue
      for (const { text, anchor } of bucket instanceof Set ? bucket : [bucket]) {
        const start = end - shortestSecret + 1 - anchor
        if (matchesAt(line, start, text, anchor)) hits.push([Math.max(0, start), start + text.length])
      }
    }
    return hits.length > 0 ? replaceHits(line, hits) : line
  }

  return { add, remove, cover }
}

function usersOf(bucket: Pattern | Set<Pattern> | undefined): number {
  return bucket instanceof Set ? bucket.size : bucket ? 1 : 0
}

/** Its bytes, one to a character. */
function byteText(spelling: string): string {
  const isAscii = Buffer.byteLength(spelling) === spelling.length
  return isAscii ? spelling : Buffer.from(spelling).toString('latin1')
}

/** Two rounds, so that bits from everywhere say which word and which of its bits. */
function hashOf(first: number, last: number): number {
  const mixed = Math.imul(last ^ Math.imul(first, 0x9e3779b1), 0x85ebca6b)
  return Math.imul(mixed ^ (mixed >>> 15), 0xc2b2ae35)
}

function hashAt(text: string, at: number): number {
  const first = (text.charCodeAt(at) << 8) | text.charCodeAt(at + 1)
  const middle = (text.charCodeAt(at + 2) << 24) | (text.charCodeAt(at + 3) << 16)
  return hashOf(first, middle | (text.charCodeAt(at + 4) << 8) | text.charCodeAt(at + 5))
}

function wordOf(hash: number): number {
  return hash >>> 15
}

// What differs between keys stands behind what they share, so that their last windows are as rare as any.
const mostAnchors = 24

/** The window under which to file a text: one that nobody uses, or of its last ones the least used. */
function rarestWindow(text: string, users: (hash: number) => number): { anchor: number; hash: number } {
  const last = text.length - shortestSecret
  let rarest = { anchor: last, hash: hashAt(text, last) }
  let fewest = users(rarest.hash)
  for (let anchor = last - 1; fewest > 0 && anchor >= 0 && anchor > last - mostAnchors; anchor--) {
    const hash = hashAt(text, anchor)
    if (users(hash) >= fewest) continue
    rarest = { anchor, hash }
    fewest = users(hash)
  }
  return rarest
}

/** Compares the bytes around the window. So many equal ones are a trace, whatever became of the others. */
function matchesAt(line: Uint8Array, start: number, text: string, anchor: number): boolean {
  const from = Math.max(0, Math.min(anchor, text.length - enoughBytes))
  const to = Math.min(text.length, from + enoughBytes)
  for (let i = from; i < to; i++) if (line[start + i] !== text.charCodeAt(i)) return false
  return true
}

const enoughBytes = 64

const covering = Buffer.from('[masked]')

function replaceHits(line: Uint8Array, hits: [number, number][]): Uint8Array {
  hits.sort((a, b) => a[0] - b[0])
  const parts: Uint8Array[] = []
  let at = 0
  for (const [start, end] of hits) {
    if (end <= at) continue
    if (start >= at) parts.push(line.subarray(at, start), covering)
    at = end
  }
  parts.push(line.subarray(at))
  return Buffer.concat(parts)
}
