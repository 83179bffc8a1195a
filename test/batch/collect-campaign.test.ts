import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { collectForDays, eveningStops, wordsOf } from '../collecting/campaign.ts'
import type { Evidence, MonthlyEvidence, SourceEvidence, Usage } from '../collecting/evidence.ts'
import { judge } from '../collecting/judge.ts'
import { openSources } from '../collecting/stage.ts'
import { type ServiceProcess, startService } from '../processes/service-process.ts'
import { size } from '../size.ts'
import { openWorld } from '../world.ts'

test('trackers at every source keep their promises for days, while sources fail and workers are killed', async () => {
  const words = wordsOf(size(60, 70))
  const days = size(3, 4)
  const dir = mkdtempSync(join(tmpdir(), 'rankledger-campaign-'))
  const sources = await openSources(dir, { words, days, ratePerSecond: 100 })
  const world = await openWorld({ environment: { ...sources.environments[0] } })
  const workers: ServiceProcess[] = []
  try {
    const startWorker = (environment: Readonly<Record<string, string>>) => {
      const worker = startService(['work'], { ...world.environment, ...environment })
      workers.push(worker)
      const kill = async () => {
        worker.child.kill('SIGKILL')
        await once(worker.child, 'exit')
      }
      return { started: () => worker.event('service.started'), kill, stop: () => worker.stop() }
    }
    const { url, token } = world
    const service = { url, token, db: world.app.pool, startWorker }
    const evidence = await collectForDays(service, sources, {
      words,
      days,
      seed: 1,
      stops: eveningStops,
    })
    expect(judge(evidence).filter(({ held }) => !held)).toEqual([])
  } finally {
    for (const { child } of workers) child.kill('SIGKILL')
    await world.close()
    await sources.close()
    rmSync(dir, { recursive: true, force: true })
  }
})

const soundUsage: Usage = {
  source: 'serpapi',
  ratePerSecond: 100,
  budgetPerDay: 20,
  failing: 0.1,
  spent: 30,
  mostSpentInADay: 18,
  reserved: 0,
  lost: 2,
  callsByHost: [40],
  book: {
    paid: 29,
    paidAgain: 2,
    toldAgain: 2,
    paidByDay: { '2030-03-01': 18 },
    mostInASecond: 98,
    mostInAMinute: 5_900,
    throttled: 0,
    struck: { unavailable: 4 },
    calls: 40,
  },
}
const soundSource: SourceEvidence = {
  ...soundUsage,
  keywords: 10,
  checksPerCall: 1,
  rowsByDay: { '2030-03-01': { rows: 10, keywords: 10 }, '2030-03-02': { rows: 10, keywords: 10 } },
  failedByReason: { timeout: 5, worker_lost: 1, budget_exhausted: 3 },
  failedWithoutReason: 0,
  stingyDays: [],
  untrue: [],
  openChecks: 0,
  orphaned: 1,
  keptBack: 0,
}
const soundMonth: MonthlyEvidence = {
  ...soundUsage,
  source: 'naver_datalab',
  tells: 'trends',
  keywordsPerCall: 1,
  month: '2030-03-01',
  checks: { done: 7, no_data: 1, failed: 2 },
  failedWithoutReason: 0,
  doneInVain: 0,
}
const sound: Evidence = {
  keywords: 10,
  days: 2,
  tries: 3,
  sources: [soundSource],
  monthly: [soundMonth],
  kills: 1,
  restarts: 1,
  longestStallMs: 0,
  training: { status: 'succeeded', error: null, modelId: 'mdl_1' },
}
const withSource = (changes: Partial<SourceEvidence>): Evidence => ({
  ...sound,
  sources: [{ ...soundSource, ...changes }],
})
const withBook = (changes: Partial<SourceEvidence['book']>) =>
  withSource({ book: { ...soundSource.book, ...changes } })
const withMonth = (changes: Partial<MonthlyEvidence>): Evidence => ({
  ...sound,
  monthly: [{ ...soundMonth, ...changes }],
})

test('sound evidence is believed', () => {
  expect(judge(sound).filter(({ held }) => !held)).toEqual([])
})

test.each<[string, Evidence]>([
  ['one row', withSource({ rowsByDay: { '2030-03-01': { rows: 10, keywords: 10 } } })],
  [
    'one row',
    withSource({ rowsByDay: { ...soundSource.rowsByDay, '2030-03-02': { rows: 9, keywords: 9 } } }),
  ],
  ['without a reason', withSource({ failedWithoutReason: 1 })],
  ['neither ended nor failed', withSource({ openChecks: 1 })],
  ['though they were tried', withSource({ failedByReason: { timeout: 19 } })],
  ['a worker was killed', withSource({ failedByReason: { worker_lost: 2 } })],
  ['a budget that was left', withSource({ stingyDays: ['2030-03-01: 17'] })],
  ['another place', withSource({ untrue: ['word 1 on 2030-03-01: 3, not 4'] })],
  ['most paid calls in a day', withSource({ mostSpentInADay: 21 })],
  ['most paid calls in a day', withBook({ paidByDay: { '2030-03-01': 21 } })],
  ['within a second', withBook({ mostInASecond: 126 })],
  ['within a minute', withBook({ mostInAMinute: 6_002 })],
  ['too fast', withBook({ throttled: 1 })],
  ['hosts', withSource({ callsByHost: [40, 0] })],
  ['faults that were drawn', withBook({ struck: {}, calls: 100 })],
  ['paid for again', withBook({ paidAgain: 3 })],
  ['count as spent', withBook({ paid: 31 })],
  ['count as spent', withSource({ reserved: 1 })],
  ['asked for in 2030-03', withMonth({ checks: { done: 9 } })],
  ['asked for in 2030-03', withMonth({ checks: { done: 9, asked: 1 } })],
  ['asked for in 2030-03', withMonth({ checks: { done: 1, failed: 9 } })],
  ['keywords without a reason', withMonth({ failedWithoutReason: 1 })],
  ['are stored', withMonth({ doneInVain: 1 })],
  ['told again', withMonth({ book: { ...soundMonth.book, toldAgain: 3 } })],
  ['most paid calls in a day', withMonth({ mostSpentInADay: 21 })],
  ['killed in', { ...sound, kills: 0 }],
  ['stopped and started', { ...sound, restarts: 0 }],
  ['crashes lost', withSource({ lost: 0, book: { ...soundSource.book, paidAgain: 0 } })],
  ['classifier', { ...sound, training: { status: 'failed', error: 'insufficient_labels', modelId: null } }],
])('a campaign that broke a promise is told by it alone: %s', (what, evidence) => {
  const broken = judge(evidence).filter(({ held }) => !held)
  expect(broken.map((check) => check.what)).toEqual([expect.stringContaining(what)])
})
