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
  const lasting = new Set<string>()
  const passing = new Set<string>()

  const remove = (value: string) => {
    const wasLasting = lasting.delete(value)
    const wasPassing = passing.delete(value)
    if (wasLasting || wasPassing) for (const spelling of spellings(value)) index.remove(spelling)
  }

  return {
    add(value) {
      if (Buffer.byteLength(value) < shortestSecret) return false
      if (lasting.has(value)) return true
      if (passing.delete(value)) {
        lasting.add(value)
        return true
      }
      lasting.add(value)
      for (const spelling of spellings(value)) index.add(spelling)
      return true
    },
    addPassing(value) {
      if (Buffer.byteLength(value) < shortestSecret) return false
      if (lasting.has(value)) return true
      // Deleting and adding again moves a value to the end of the set's order, away from being forgotten.
      if (!passing.delete(value)) for (const spelling of spellings(value)) index.add(spelling)
      passing.add(value)
      if (passing.size > maxPassing) remove(passing.values().next().value!)
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
function spellings(value: string): Set<string> {
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
  return new Set(every.filter((spelling) => Buffer.byteLength(spelling) >= shortestSecret))
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

/**
 * Finds many patterns in one pass. Each pattern is filed under one window of six of its bytes, chosen to be the
 * rarest, because keys of one provider all begin alike; the line's windows are hashed by rolling and looked up. Most of them
 * are nobody's, which two bits of one word tell; so small a filter stays close to the processor.
 */
function createIndex() {
  const buckets = new Map<number, Pattern[]>()
  let filter = new Int32Array(1 << 11)
  let count = 0

  const mark = (hash: number) => {
    filter[wordOf(hash) & (filter.length - 1)]! |= bitsOf(hash)
  }

  const add = (spelling: string) => {
    const bytes = Buffer.from(spelling)
    const { anchor, hash } = rarestWindow(bytes, buckets)
    const pattern = { text: bytes.toString('latin1'), anchor }
    const bucket = buckets.get(hash)
    if (bucket) bucket.push(pattern)
    else buckets.set(hash, [pattern])
    count++
    if (count > filter.length * 2) {
      filter = new Int32Array(filter.length * 2)
      for (const known of buckets.keys()) mark(known)
    } else mark(hash)
  }

  const remove = (spelling: string) => {
    const bytes = Buffer.from(spelling)
    const text = bytes.toString('latin1')
    for (const hash of windowHashes(bytes)) {
      const bucket = buckets.get(hash)
      const at = bucket?.findIndex((pattern) => pattern.text === text) ?? -1
      if (!bucket || at < 0) continue
      bucket.splice(at, 1)
      if (bucket.length === 0) buckets.delete(hash)
      count--
      return
    }
  }

  const cover = (line: Uint8Array): Uint8Array => {
    if (count === 0 || line.length < shortestSecret) return line
    const hits: [number, number][] = []
    const marks = filter
    const lastWord = marks.length - 1
    let hash = 0
    let leaving = 0
    for (let end = 0; end < line.length; end++) {
      hash = (Math.imul(hash, base) + line[end]! - leaving) | 0
      if (end < shortestSecret - 1) continue
      leaving = Math.imul(line[end - shortestSecret + 1]!, topWeight)
      const bits = bitsOf(hash)
      if ((marks[wordOf(hash) & lastWord]! & bits) !== bits) continue
      for (const { text, anchor } of buckets.get(hash) ?? []) {
        const start = end - shortestSecret + 1 - anchor
        if (matchesAt(line, start, text, anchor)) hits.push([Math.max(0, start), start + text.length])
      }
    }
    return hits.length > 0 ? replaceHits(line, hits) : line
  }

  return { add, remove, cover }
}

const base = 0x01000193
const topWeight = Array.from({ length: shortestSecret }).reduce<number>(
  (weight) => Math.imul(weight, base),
  1,
)

function wordOf(hash: number): number {
  return (hash ^ (hash >>> 15)) >>> 10
}

/** Two bits of the word; the hash has mixed them enough. */
function bitsOf(hash: number): number {
  return (1 << (hash & 31)) | (1 << ((hash >>> 5) & 31))
}

function* windowHashes(bytes: Uint8Array): Generator<number> {
  let hash = 0
  for (let end = 0; end < bytes.length; end++) {
    hash = (Math.imul(hash, base) + bytes[end]!) | 0
    if (end >= shortestSecret) hash = (hash - Math.imul(bytes[end - shortestSecret]!, topWeight)) | 0
    if (end >= shortestSecret - 1) yield hash
  }
}

function rarestWindow(bytes: Uint8Array, buckets: ReadonlyMap<number, readonly Pattern[]>) {
  let anchor = 0
  let best = 0
  let fewest = Number.POSITIVE_INFINITY
  let at = 0
  for (const hash of windowHashes(bytes)) {
    const users = buckets.get(hash)?.length ?? 0
    // Later windows are preferred: what differs between keys stands behind what they share.
    if (users <= fewest) [anchor, best, fewest] = [at, hash, users]
    at++
  }
  return { anchor, hash: best }
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
