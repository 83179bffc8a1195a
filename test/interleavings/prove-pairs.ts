import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createDatabase, dropDatabase } from '../world.ts'
import { cutOrders, explore, survey } from './explore.ts'
import { sample } from './orders.ts'
import type { Pair } from './pair.ts'
import { openPathMemory } from './path-memory.ts'
import { openStage, type Stage } from './stage.ts'

const seed = 20_261_115
const fewOfVariants = 40

/**
 * Proves each critical pair in every order of its cuts and its variants in some, and all of them in every order of
 * statements with two switches. `all.ts` runs the rest.
 */
export function provePairs(pairs: readonly Pair[]): void {
  describe(`whatever the order of locks, commits and calls (seed ${seed})`, () => {
    let stage: Stage
    beforeAll(async () => {
      stage = await openStage(await createDatabase())
    })
    afterAll(async () => {
      await stage.close()
      await dropDatabase(stage.url)
    })

    for (const pair of pairs) {
      test(pair.fact, async () => {
        const { shape, ...statements } = await survey(stage, pair)
        const orders = pair.isVariant ? sample(cutOrders(shape), fewOfVariants, seed) : cutOrders(shape)
        const cuts = await explore(stage, pair, shape.cuts, orders, openPathMemory())
        const failures = [...statements.failures, ...cuts.failures]
        if (failures.length > 0) expect.fail(failures.join('\n\n'))
        // A pair whose sides never meet proves nothing.
        expect(cuts.runs.length).toBeGreaterThan(4)
      })
    }
  })
}
