import { describe, expect, test } from 'vitest'
import { historyOf, type SmallRank } from '../../../test/batch/small-history.ts'
import { featureNames } from '../dataset/features.ts'
import type { History } from '../dataset/history.ts'
import { createRandom, type Random } from '../learning/random.ts'
import { type MakeRequest, makeModel } from './make-model.ts'

const request: MakeRequest = {
  seed: 1,
  snapshot: { sha256: '', ranksSha256: '', volumesSha256: '' },
  active: undefined,
  onReject: 'keep',
}

async function manifestOf(history: History) {
  const made = await makeModel(history, request)
  if (made.kind !== 'made') throw new Error(made.kind)
  return made.manifest
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

const shake = (random: Random) => 0.3 * (random.float() - 0.5)

describe('half of the keywords are never found, and telling which is no merit', () => {
  test.each([1, 2, 3])('ranks that move by chance alone are not promoted (%i)', async (seed) => {
    const { gate, metrics } = await manifestOf(
      worldOf(seed, (place, _, random) => place * Math.exp(shake(random))),
    )
    expect(gate.decision).toBe('reject')
    // Class shares alone would have let it pass.
    expect(metrics.baseline_prior.log_loss - metrics.holdout.log_loss).toBeGreaterThan(0.1)
    expect(metrics.holdout.ranked.examples).toBeGreaterThanOrEqual(500)
  })

  test('ranks that return to where they belong are', async () => {
    const { gate, metrics } = await manifestOf(
      worldOf(1, (place, home, random) => place * Math.exp(shake(random) + 0.3 * Math.log(home / place))),
    )
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
