import { newId } from '../../../platform/id.ts'
import { type Day, dayOf } from '../../../platform/time.ts'
import type { BatchApp, BatchTx } from '../../app.ts'
import { fenceOfRun, type RunInHand, workRun } from '../../runs/work-run.ts'
import type { Source } from '../../sources/port.ts'
import { awake } from '../breaker.ts'
import { openPacer, type Pacer } from '../pacer.ts'
import { settleSource } from '../settle-source.ts'
import { lockSource, openSourceRow, updateSource } from '../source-rows.ts'
import { bookCalls, forgetOldSpending, listSpending } from '../spending-rows.ts'
import { installationScope } from '../tracker-rows.ts'
import { type KeywordReader, readersOf, type Spelled } from './keyword-readers.ts'
import {
  type DueKeyword,
  forgetOldVolumeChecks,
  forgetVolumeChecks,
  freeLostVolumes,
  type KeywordPlace,
  listDueKeywords,
  noteVolumeChecks,
} from './volume-check-rows.ts'

export type CollectedVolumes = {
  asked: number
  found: number
  no_data: number
  failed: number
  calls: number
  lost: number
}

/** A run that asks every source of volumes or trends for every registered keyword that has no answer of this month yet. */
export async function collectVolumes(app: BatchApp, { runId }: { runId: string }): Promise<void> {
  await workRun(app, runId, async (run) => {
    const collected: CollectedVolumes = { asked: 0, found: 0, no_data: 0, failed: 0, calls: 0, lost: 0 }
    const inRun = <T>(work: (tx: BatchTx) => Promise<T>): Promise<T> =>
      app.db.transaction().execute(async (tx) => {
        await app.fence(tx)
        await fenceOfRun(run)(tx)
        return work(tx)
      })
    collected.lost = await inRun(freeLostVolumes)
    await forgetOld(inRun, dayOf(app.clock(), app.timeZone))
    for (const source of app.sources.values()) {
      const readers = readersOf(source, dayOf(app.clock(), app.timeZone))
      if (readers.length === 0) continue
      await openSourceRow(app.db, source.settings)
      const pacer = openPacer(app.db, source.settings.name, source.settings.ratePerSecond)
      for (const reader of readers) await drainKeywords(app, run, { source, reader, pacer, inRun, collected })
    }
    run.signal.throwIfAborted()
    return async () => ({ metrics: { ...collected } })
  })
}

const mostForgotten = 5_000

/** Some rows at a time: whoever keeps this run's lease waits for each of these transactions. */
async function forgetOld(inRun: KeywordDrain['inRun'], today: Day): Promise<void> {
  await inRun((tx) => forgetOldSpending(tx, today))
  while ((await inRun((tx) => forgetOldVolumeChecks(tx, today, mostForgotten))) === mostForgotten);
}

/** The work of one run on what one source is asked of every keyword. */
type KeywordDrain = {
  readonly source: Source
  readonly reader: KeywordReader
  readonly pacer: Pacer
  readonly inRun: <T>(work: (tx: BatchTx) => Promise<T>) => Promise<T>
  readonly collected: CollectedVolumes
}

// Every reading goes over all keywords: few large ones, as far as they are no burden on memory.
const mostRead = 10_000

async function drainKeywords(app: BatchApp, run: RunInHand, drain: KeywordDrain): Promise<void> {
  const { source, reader, collected } = drain
  let asked = 0
  for (let after: KeywordPlace | undefined; ; ) {
    const due = await listDueKeywords(app.db, source.settings.name, reader.month, { after, limit: mostRead })
    if (due.length === 0) return
    after = due.at(-1)
    const bySpelling = new Map<string, DueKeyword[]>()
    const unspeakable: DueKeyword[] = []
    for (const keyword of due) {
      const spelling = reader.spell(keyword.display)
      if (spelling === undefined) unspeakable.push(keyword)
      else bySpelling.set(spelling, [...(bySpelling.get(spelling) ?? []), keyword])
    }
    if (unspeakable.length > 0) await note(app, drain, unspeakable, 'no_data', 'cannot_be_asked')
    collected.no_data += unspeakable.length
    const spelled = [...bySpelling].map(([spelling, keywords]): Spelled => ({ spelling, keywords }))
    for (let at = 0; at < spelled.length; at += reader.mostPerCall) {
      if (run.signal.aborted) return
      const goesOn = await askFor(app, drain, spelled.slice(at, at + reader.mostPerCall), 'first')
      if (!goesOn) return
      asked += reader.mostPerCall
      run.report(1 - 1 / (1 + asked / 1000))
    }
  }
}

/** A group that was not asked before, a part of one that was, or what is asked for the last time. */
type Turn = 'first' | 'part' | 'last'

// So few are asked one by one sooner than in halves.
const fewAtOnce = 5

/**
 * Asks for some keywords. A group that is refused as a whole, or answered with nothing at all, is asked in halves, for one bad
 * keyword can spoil all; those that a good answer does not speak of are asked once more alone. False: the source is not to be
 * asked any more.
 */
async function askFor(
  app: BatchApp,
  drain: KeywordDrain,
  group: readonly Spelled[],
  turn: Turn,
): Promise<boolean> {
  const { source, reader, pacer, collected } = drain
  const { name } = source.settings
  const keywords = group.flatMap(({ keywords }) => keywords)
  const call = newId('vol_', app.clock())
  const spentOn = await claimCall(app, drain, keywords, call)
  if (spentOn === undefined) return false
  await pacer.turn()
  const answer = await reader.ask(group, app.clock())
  if (answer.kind === 'answered') await answer.store(app)
  const failure = answer.kind === 'failed' ? answer : undefined
  const { found, without, unheard } = sortOut(group, answer)
  const isAgain = turn !== 'last' && group.length > 1
  const isSpoilt = failure
    ? failure.reason === 'request_refused' && group.length > 1
    : isAgain && group.length > fewAtOnce && unheard.length === group.length
  collected.calls += failure && !failure.paid ? 0 : 1
  collected.asked += turn === 'first' ? keywords.length : 0

  await drain.inRun(async (tx) => {
    const tally = { good: failure ? 0 : 1, failures: failure ? [failure] : [] }
    await settleSource(tx, name, tally, app.clock(), app.timeZone)
    await bookCalls(tx, name, spentOn, [
      { scope: installationScope, reserved: -1, spent: failure && !failure.paid ? 0 : 1 },
    ])
    const place = { source: name, month: reader.month, call, spentOn }
    const keysOf = (some: readonly Spelled[]) =>
      some.flatMap(({ keywords }) => keywords.map(({ key }) => key))
    // A hurry, or a neighbour that spoils the group, is not the keyword's fault, and costs it no try.
    if (isSpoilt || (failure && failure.of !== 'answer'))
      await forgetVolumeChecks(tx, name, reader.month, call)
    else if (failure)
      await noteVolumeChecks(tx, { ...place, keys: keysOf(group), status: 'failed', reason: failure.reason })
    else {
      const noteAs = (
        some: readonly Spelled[],
        status: 'done' | 'no_data' | 'failed',
        reason: string | null,
      ) => noteVolumeChecks(tx, { ...place, keys: keysOf(some), status, reason })
      await noteAs(found, 'done', null)
      await noteAs(without, 'no_data', 'missing')
      await noteAs(unheard, isAgain ? 'failed' : 'no_data', 'missing')
    }
  })
  collected.found += found.length
  collected.no_data += without.length + (isAgain || failure ? 0 : unheard.length)

  if (failure && failure.of !== 'answer')
    return failure.of === 'rate' ? askFor(app, drain, group, turn) : false
  if (isSpoilt) {
    const half = Math.ceil(group.length / 2)
    return (
      (await askFor(app, drain, group.slice(0, half), 'part')) &&
      (await askFor(app, drain, group.slice(half), 'part'))
    )
  }
  if (failure) collected.failed += keywords.length
  if (failure || !isAgain) return true
  for (const one of unheard) if (!(await askFor(app, drain, [one], 'last'))) return false
  return true
}

/** What an answer says of each. A failure says nothing of anybody. */
function sortOut(group: readonly Spelled[], answer: Awaited<ReturnType<KeywordReader['ask']>>) {
  if (answer.kind === 'failed') return { found: [], without: [], unheard: group }
  const { found, without } = answer
  return {
    found: group.filter(({ spelling }) => found.has(spelling)),
    without: group.filter(({ spelling }) => without.has(spelling)),
    unheard: group.filter(({ spelling }) => !found.has(spelling) && !without.has(spelling)),
  }
}

/** Notes the call before it is made, if the source is ready and the day's budget has room for it. */
function claimCall(app: BatchApp, drain: KeywordDrain, keywords: readonly DueKeyword[], call: string) {
  const { name, budgetPerDay } = drain.source.settings
  const { month } = drain.reader
  return drain.inRun(async (tx) => {
    const now = app.clock()
    const before = await lockSource(tx, name)
    const state = awake(before, now)
    if (!state) return undefined
    if (state !== before) await updateSource(tx, name, state)
    const spentOn = dayOf(now, app.timeZone)
    const spending = await listSpending(tx, name, spentOn, [installationScope])
    if ((spending.get(installationScope)?.used ?? 0) >= budgetPerDay) return undefined
    await bookCalls(tx, name, spentOn, [{ scope: installationScope, reserved: 1, spent: 0 }])
    const keys = keywords.map(({ key }) => key)
    await noteVolumeChecks(tx, { source: name, month, keys, status: 'asked', reason: null, call, spentOn })
    return spentOn
  })
}

async function note(
  app: BatchApp,
  { source, reader: { month }, inRun }: KeywordDrain,
  keywords: readonly DueKeyword[],
  status: 'no_data',
  reason: string,
): Promise<void> {
  const keys = keywords.map(({ key }) => key)
  const spentOn = dayOf(app.clock(), app.timeZone)
  await inRun((tx) =>
    noteVolumeChecks(tx, { source: source.settings.name, month, keys, status, reason, call: null, spentOn }),
  )
}
