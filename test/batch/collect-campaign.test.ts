import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { collectForDays, eveningStops } from '../collecting/campaign.ts'
import type { Evidence, SourceEvidence } from '../collecting/evidence.ts'
import { judge } from '../collecting/judge.ts'
import { openSources } from '../collecting/stage.ts'
import { type ServiceProcess, startService } from '../processes/service-process.ts'
import { size } from '../size.ts'
import { openWorld } from '../world.ts'

test('trackers at every source keep their promises for days, while sources fail and workers are killed', async () => {
  const keywords = size(40, 70)
  const dir = mkdtempSync(join(tmpdir(), 'rankledger-campaign-'))
  const sources = await openSources(dir, { keywords, ratePerSecond: 100 })
  const world = await openWorld({ environment: { ...sources.environment } })
  const workers: ServiceProcess[] = []
  try {
    const startWorker = () => {
      const worker = startService(['work'], world.environment)
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
      keywords,
      days: size(3, 4),
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

const soundSource: SourceEvidence = {
  source: 'serpapi',
  ratePerSecond: 100,
  budgetPerDay: 20,
  rowsByDay: { '2030-03-01': { rows: 10, keywords: 10 }, '2030-03-02': { rows: 10, keywords: 10 } },
  failed: 1,
  failedWithoutReason: 0,
  untrue: [],
  openChecks: 0,
  spent: 30,
  mostSpentInADay: 18,
  reserved: 0,
  lost: 2,
  book: { paid: 29, paidAgain: 2, paidByDay: { '2030-03-01': 18 }, mostInASecond: 98, calls: 40 },
}
const sound: Evidence = {
  keywords: 10,
  days: 2,
  sources: [soundSource],
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
  ['another place', withSource({ untrue: ['word 1 on 2030-03-01: 3, not 4'] })],
  ['most paid calls in a day', withSource({ mostSpentInADay: 21 })],
  ['most paid calls in a day', withBook({ paidByDay: { '2030-03-01': 21 } })],
  ['within a second', withBook({ mostInASecond: 126 })],
  ['paid for again', withBook({ paidAgain: 3 })],
  ['count as spent', withBook({ paid: 31 })],
  ['count as spent', withSource({ reserved: 1 })],
  ['killed', { ...sound, kills: 0 }],
  ['stopped and started', { ...sound, restarts: 0 }],
  ['crashes lost', withSource({ lost: 0, book: { ...soundSource.book, paidAgain: 0 } })],
  ['classifier', { ...sound, training: { status: 'failed', error: 'insufficient_labels', modelId: null } }],
])('a campaign that broke a promise is told by it alone: %s', (what, evidence) => {
  const broken = judge(evidence).filter(({ held }) => !held)
  expect(broken.map((check) => check.what)).toEqual([expect.stringContaining(what)])
})
