import { expect, test } from 'vitest'
import type { MeanAsk, RankPage, RankSource, SourceFailure } from '../sources/port.ts'
import { makeCheck } from './make-check.ts'
import type { Pacer } from './pacer.ts'

const ask: MeanAsk = {
  keyword: 'shoes',
  engine: 'google',
  device: 'mobile',
  location: 'KR',
  language: null,
  depth: 30,
  site: 'example.com',
  match: 'host',
  day: '2030-01-15',
}
const isOurs = (url: string) => url.startsWith('https://example.com/')
const others = (from: number, count: number) =>
  Array.from({ length: count }, (_, n) => `https://o.com/${from + n}`)
const page = (urls: readonly string[], isLast = false): RankPage => ({ kind: 'page', urls, isLast })

const held: number[] = []
const pacer: Pacer = { turn: async () => {}, hold: async (ms) => void held.push(ms) }

/** The answers come one after the other, whichever page is asked for; `pages` is what was asked for. */
function checkInTurn(...answers: (RankPage | SourceFailure)[]) {
  const pages: number[] = []
  const source: RankSource = {
    name: 'serpapi',
    engines: ['google'],
    deepest: () => 100,
    callsFor: () => 3,
    readPage: async (_ask, at) => {
      pages.push(at)
      return answers[pages.length - 1]!
    },
  }
  held.splice(0)
  return makeCheck(source, ask, isOurs, pacer).then((outcome) => ({ outcome, pages }))
}

function check(...answers: (RankPage | SourceFailure)[]) {
  const source: RankSource = {
    name: 'serpapi',
    engines: ['google'],
    deepest: () => 100,
    callsFor: () => 3,
    readPage: async (_ask, at) => answers[at]!,
  }
  return makeCheck(source, ask, isOurs, pacer)
}

test('a place is counted over all pages, each address once', async () => {
  const found = await check(page(others(0, 9)), page([...others(8, 3), 'https://example.com/a']))
  expect(found).toEqual({ kind: 'ranked', position: 12, url: 'https://example.com/a', calls: 2 })
})

test('a result that stands under another address too is found by either', async () => {
  const originals = new Map([['https://portal.com/2', 'https://example.com/story']])
  const found = await check({ ...page(['https://portal.com/1', 'https://portal.com/2']), originals })
  expect(found).toEqual({ kind: 'ranked', position: 2, url: 'https://example.com/story', calls: 1 })
})

test('what is not found is not found as deep as was really read, or to the end of the results', async () => {
  expect(await check(page(others(0, 9)), page(others(9, 8)), page(others(17, 9)))).toEqual({
    kind: 'not_in_depth',
    depth: 26,
    calls: 3,
  })
  expect(await check(page(others(0, 10)), page(others(10, 3), true))).toEqual({
    kind: 'not_in_depth',
    depth: 30,
    calls: 2,
  })
})

test('a page that failed fails the check, and what was paid for before it counts', async () => {
  const failure: SourceFailure = { kind: 'failed', reason: 'timeout', of: 'answer', paid: true }
  expect(await check(page(others(0, 10)), failure)).toEqual({ ...failure, calls: 2 })
})

const tooFast: SourceFailure = { kind: 'failed', reason: 'throttled', of: 'rate', paid: false }

test('a later page that was asked for too fast is asked for again by itself, after a wait that grows', async () => {
  const { outcome, pages } = await checkInTurn(
    page(others(0, 10)),
    tooFast,
    tooFast,
    page([...others(10, 4), 'https://example.com/a']),
  )
  expect(outcome).toEqual({ kind: 'ranked', position: 15, url: 'https://example.com/a', calls: 2 })
  expect(pages).toEqual([0, 1, 1, 1])
  expect(held).toEqual([1000, 2000])
})

test('a source that is asked too fast at the first page, or five times at a later one, fails the check', async () => {
  expect(await checkInTurn(tooFast)).toEqual({ outcome: { ...tooFast, calls: 0 }, pages: [0] })
  const later = await checkInTurn(page(others(0, 10)), ...Array.from({ length: 9 }, () => tooFast))
  expect(later).toEqual({ outcome: { ...tooFast, calls: 1 }, pages: [0, 1, 1, 1, 1, 1] })
})
