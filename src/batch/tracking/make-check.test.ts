import { expect, test } from 'vitest'
import type { MeanAsk, RankPage, RankSource, SourceFailure } from '../sources/port.ts'
import { makeCheck } from './make-check.ts'

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

function check(...answers: (RankPage | SourceFailure)[]) {
  const source: RankSource = {
    name: 'serpapi',
    engines: ['google'],
    deepest: () => 100,
    callsFor: () => 3,
    readPage: async (_ask, at) => answers[at]!,
  }
  return makeCheck(source, ask, isOurs, async () => {})
}

test('a place is counted over all pages, each address once', async () => {
  const found = await check(page(others(0, 9)), page([...others(8, 3), 'https://example.com/a']))
  expect(found).toEqual({ kind: 'ranked', position: 12, url: 'https://example.com/a', calls: 2 })
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
