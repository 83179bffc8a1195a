import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { describeCampaign, describeFailure, enoughSeeds, runCampaign } from './campaign.ts'
import { leakingStages } from './log-stages.ts'
import { plantedBugs } from './planted-bugs.ts'
import { runSeed } from './run-seed.ts'
import { openStage, type Stage } from './stage.ts'

test('in runs full of deaths, lost answers and races no invariant breaks, and every kind of trouble came', async ({
  signal,
}) => {
  const campaign = await runCampaign(inject('postgresUrl'), {
    from: 1,
    seeds: enoughSeeds,
    mostFailures: 3,
    signal,
  })
  expect(campaign.failures.map((failure) => describeFailure(failure, 15))).toEqual([])
  expect(campaign.neverFired, describeCampaign(campaign)).toEqual([])
}, 400_000)

test('each stage of the log holds by itself what it must', () => {
  expect(leakingStages(1)).toEqual([])
})

let stage: Stage
beforeAll(async () => {
  stage = await openStage(inject('postgresUrl'))
})
afterAll(() => stage.close())

test.each([3, 22, 30, 47])('seed %i tells the same story every time', async (seed) => {
  const first = await runSeed(stage, seed)
  const second = await runSeed(stage, seed)
  expect(second.hash).toBe(first.hash)
  expect(first.operations).toBeGreaterThan(20)
})

test('different seeds tell different stories', async () => {
  expect((await runSeed(stage, 1)).hash).not.toBe((await runSeed(stage, 2)).hash)
})

test('at least fifty mistakes are there to be planted, each of them once', () => {
  expect(plantedBugs.length).toBeGreaterThanOrEqual(50)
  expect(new Set(plantedBugs.map(({ name }) => name)).size).toBe(plantedBugs.length)
})

test.each(plantedBugs)('the place of "$name" is still there', ({ file, from }) => {
  expect(readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')).toContain(from)
})
