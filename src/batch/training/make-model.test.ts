import { describe, expect, test } from 'vitest'
import { historyOf, type SmallRank } from '../../../test/batch/small-history.ts'
import { featureNames } from '../dataset/features.ts'
import { dayOrdinal, type History } from '../dataset/history.ts'
import { createRandom, type Random } from '../learning/random.ts'
import { type MakeRequest, makeModel } from './make-model.ts'

const request: MakeRequest = {
  seed: 1,
  snapshot: { sha256: '', ranksSha256: '', volumesSha256: '' },
  sample: { keywordsKept: 1 },
  active: undefined,
  onReject: 'keep',
}

async function made(history: History, active?: MakeRequest['active']) {
  const model = await makeModel(history, { ...request, active })
  if (model.kind !== 'made') throw new Error(model.kind)
  return model
}

const days = 32
const keywords = 240

/** Every other keyword is never found; the others go their way from somewhere between the 1,000th and 3,000th place. */
function worldOf(seed: number, step: (place: number, home: number, random: Random) => number): History {
  const random = createRandom(seed)
  return historyOf(
    Array.from({ length: keywords }, (_, at): SmallRank[] => {
      if (at % 2 === 1) return Array.from({ length: days }, (_, day) => [day, -10_001, 0, 10_000])
      const home = 1000 + random.below(2000)
      let place = home
      return Array.from({ length: days }, (_, day) => {
        place = step(place, home, random)
        return [day, Math.round(place), 0, 10_000]
      })
    }),
  )
}

const goesHome = (place: number, home: number, random: Random) =>
  place * Math.exp(shake(random) + 0.3 * Math.log(home / place))

const shake = (random: Random) => 0.3 * (random.float() - 0.5)

let trainedOnce: ReturnType<typeof made> | undefined

/** The model of all days on which ranks go home, trained when it is first asked for. */
function modelOfAllDays() {
  trainedOnce ??= made(worldOf(1, goesHome))
  return trainedOnce
}

describe('half of the keywords are never found, and telling which is no merit', () => {
  test.each([1, 2])('ranks that move by chance alone are not promoted (%i)', async (seed) => {
    const world = worldOf(seed, (place, _, random) => place * Math.exp(shake(random)))
    const { gate, metrics } = (await made(world)).manifest
    expect(gate.decision).toBe('reject')
    // Class shares alone would have let it pass.
    expect(metrics.baseline_prior.log_loss - metrics.holdout.log_loss).toBeGreaterThan(0.1)
    expect(metrics.holdout.ranked.examples).toBeGreaterThanOrEqual(500)
  })

  test('ranks that return to where they belong are', async () => {
    const { gate, metrics } = (await modelOfAllDays()).manifest
    expect(gate.decision).toBe('promote')
    expect(metrics.baseline_naive.rule).toBe('distance_from_mean')
    expect(metrics.holdout.auc_rise_fall).toBeGreaterThan(0.6)
    const counted = metrics.holdout.confusion!
    expect(counted.flat().reduce((sum, count) => sum + count)).toBe(metrics.holdout.examples)
    const right = counted.reduce((sum, row, label) => sum + row[label]!, 0)
    expect(right / metrics.holdout.examples).toBeCloseTo(metrics.holdout.accuracy, 12)
    const worth = metrics.importances!
    expect(new Set(worth.map(({ feature }) => feature))).toEqual(new Set(featureNames))
    // That a keyword is never found says most; of the others it is their place, from which they return.
    expect(worth.slice(0, 2).map(({ feature }) => feature)).toEqual(['not_found_share_28', 'place'])
    expect(worth[1]!.loss_increase).toBeGreaterThan(0.01)
  })
})

describe('the active model is met only on days that it did not learn from', () => {
  const ofRange = (from: number, to: number) => {
    const all = worldOf(1, goesHome)
    const series = Array.from({ length: keywords }, (_, at) =>
      Array.from({ length: to - from }, (_, n): SmallRank => {
        const row = all.starts[at]! + from + n
        return [all.days[row]!, all.places[row]!, 0, 10_000]
      }),
    )
    return historyOf(series)
  }
  const rivalOf = ({ manifest, judged }: Awaited<ReturnType<typeof made>>) => ({
    id: 'mdl_1',
    judged,
    holdoutFrom: manifest.data.holdout_from,
  })

  test('older days were added since: its own hold-out is what both are compared on', async () => {
    const active = rivalOf(await made(ofRange(6, days)))
    const { gate, metrics, data } = (await made(ofRange(0, days), active)).manifest
    expect(gate).toMatchObject({ compared_with: 'mdl_1', not_comparable: null })
    const daysLeftOut = dayOrdinal(active.holdoutFrom) - dayOrdinal(data.holdout_from)
    expect(daysLeftOut).toBeGreaterThan(0)
    expect(metrics.active_same_holdout!.examples).toBe(metrics.holdout.examples - daysLeftOut * keywords)
  })

  test('nothing is left of its hold-out: it cannot be compared with', async () => {
    const active = rivalOf(await modelOfAllDays())
    const { gate, metrics } = (await made(ofRange(0, 20), active)).manifest
    expect(gate).toMatchObject({ compared_with: 'mdl_1', not_comparable: 'no_common_days' })
    expect(metrics.active_same_holdout).toBeNull()
  })
})
