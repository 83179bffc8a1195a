import { createHash } from 'node:crypto'

/** What a search asks for. */
export type Search = {
  readonly keyword: string
  readonly engine: string
  readonly device: string
  readonly location: string
  /** The day the web is looked at, such as 2026-11-14. */
  readonly day: string
}

/** A made-up web that is the same for everybody who asks the same, and whose sites drift from day to day. */
export type Web = {
  /** All results of a search, best first. */
  results(search: Search): string[]
  /** How often a keyword is searched in a month; some too rarely to be told. */
  volume(keyword: string, surface: 'pc' | 'mobile', month: string): number
}

/** Sites that trackers look for in demos and tests stand among the made-up ones. */
const knownSites = [
  'https://www.example.com',
  'https://example.org',
  'https://shop.example.com',
  'https://blog.naver.com/rankledger',
  'https://rankledger.example',
]
const inventedSites = 140
const msPerDay = 86_400_000
// Some 12 MB; what is forgotten is worked out again.
const mostRemembered = 2_000

export function openWeb(seed: string): Web {
  const sites = [...knownSites, ...Array.from({ length: inventedSites }, (_, n) => inventSite(seed, n))]
  const remembered = new Map<string, Float64Array>()

  /** What fixes each site's strength for a keyword: a level and two slow waves. */
  const tempers = (series: string): Float64Array => {
    const known = remembered.get(series)
    if (known) return known
    const made = new Float64Array(sites.length * 5)
    const bytes = stretch(`${seed} ${series}`, made.length * 2)
    for (let at = 0; at < made.length; at++) made[at] = bytes.readUInt16LE(at * 2) / 65_536
    if (remembered.size >= mostRemembered) remembered.clear()
    remembered.set(series, made)
    return made
  }

  return {
    results({ keyword, engine, device, location, day }) {
      const own = tempers(`${keyword} ${engine} ${device} ${location}`)
      const at = Date.parse(`${day}T00:00:00Z`) / msPerDay
      const scores = sites.map((_, n) => {
        const [level, phase, speed, phase2, speed2] = own.subarray(n * 5, n * 5 + 5) as unknown as number[]
        const slow = Math.sin(2 * Math.PI * (at / (40 + 80 * speed!) + phase!))
        const quick = Math.sin(2 * Math.PI * (at / (6 + 9 * speed2!) + phase2!))
        return level! + 0.12 * slow + 0.03 * quick + (n < knownSites.length ? 0.15 : 0)
      })
      const order = sites.map((_, n) => n).sort((a, b) => scores[b]! - scores[a]! || a - b)
      const page = encodeURIComponent(keyword).slice(0, 60)
      // A fifth of the web has nothing to say to a keyword.
      return order.filter((n) => own[n * 5]! > 0.2).map((n) => `${sites[n]}/${page}`)
    },
    volume(keyword, surface, month) {
      const bytes = stretch(`${seed} ${keyword} ${surface}`, 8)
      const size = 10 ** (bytes.readUInt16LE(0) / 13_107)
      const season = 1 + 0.3 * Math.sin((2 * Math.PI * Number(month.slice(5, 7))) / 12 + bytes[4]! / 40)
      return Math.round(size * season)
    },
  }
}

function inventSite(seed: string, n: number): string {
  const bytes = stretch(`${seed} site ${n}`, 8)
  const words = [
    'shop',
    'daily',
    'best',
    'city',
    'green',
    'blue',
    'park',
    'home',
    'tech',
    'food',
    'note',
    'lab',
  ]
  const [first, second] = [words[bytes[0]! % words.length], words[bytes[1]! % words.length]]
  const ending = ['com', 'net', 'co.kr', 'kr', 'io'][bytes[2]! % 5]
  return `${bytes[3]! % 3 === 0 ? 'http' : 'https'}://${bytes[4]! % 2 === 0 ? 'www.' : ''}${first}-${second}-${n}.${ending}`
}

function stretch(text: string, length: number): Buffer {
  return createHash('shake256', { outputLength: length }).update(text).digest()
}
