import { existsSync, readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { trackerBugs } from '../batch/tracker-bugs.ts'
import { consoleBugs } from '../browser/console-bugs.ts'
import { safetyBugs } from '../platform/safety-bugs.ts'
import { size } from '../size.ts'
import { addCounts, describeFailure, enoughSeeds, missingFrom, runCampaign } from './campaign.ts'
import { leakingStages } from './log-stages.ts'
import { plantedBugs } from './planted-bugs.ts'
import { runSeed } from './run-seed.ts'
import type { Counts } from './simulated-world.ts'
import { openStage, type Stage } from './stage.ts'

/** What the campaign's seeds told, so that each need be told only once more. */
const told = new Map<number, string>()
const counts: Counts = {}

// In parts, each with a time limit of its own: on a slow machine all of them take longer than any one test may.
const parts = 4
const seeds = size(36, enoughSeeds)
const seedsOfPart = seeds / parts
test.for(Array.from({ length: parts }, (_, part) => 1 + part * seedsOfPart))(
  'in runs full of deaths, lost answers and races no invariant breaks (from seed %i)',
  async (from, { signal }) => {
    const campaign = await runCampaign(inject('postgresUrl'), {
      from,
      seeds: seedsOfPart,
      mostFailures: 3,
      onSeed: (report) => {
        told.set(report.seed, report.hash)
        addCounts(counts, report.counts)
      },
      signal,
    })
    expect(campaign.failures.map((failure) => describeFailure(failure, 15))).toEqual([])
  },
)

// Some kinds come once in a hundred seeds, so that few seeds meet most of them and enough seeds all.
test('in these runs the kinds of trouble came', () => {
  expect(told.size).toBe(seeds)
  expect(missingFrom(counts).length).toBeLessThanOrEqual(seeds < enoughSeeds ? 10 : 0)
})

test('each stage of the log holds by itself what it must', () => {
  expect(leakingStages(1)).toEqual([])
})

let stage: Stage
beforeAll(async () => {
  stage = await openStage(inject('postgresUrl'))
})
afterAll(() => stage.close())

test.each([3, 22, 30, 47])('seed %i tells the same story every time', async (seed) => {
  const first = told.get(seed) ?? (await runSeed(stage, seed)).hash
  const second = await runSeed(stage, seed)
  expect(second.hash).toBe(first)
  expect(second.operations).toBeGreaterThan(20)
})

test('different seeds tell different stories', async () => {
  for (const seed of [1, 2]) if (!told.has(seed)) told.set(seed, (await runSeed(stage, seed)).hash)
  expect(new Set(told.values()).size).toBe(told.size)
})

test('at least fifty mistakes are there to be planted, each of them once', () => {
  expect(plantedBugs.length).toBeGreaterThanOrEqual(50)
  expect(new Set(plantedBugs.map(({ name }) => name)).size).toBe(plantedBugs.length)
})

test.each([...plantedBugs, ...trackerBugs, ...safetyBugs, ...consoleBugs])(
  'the place of "$name" is still there, and once',
  ({ file, from, story }) => {
    const at = (path: string) => new URL(`../../${path}`, import.meta.url)
    expect(readFileSync(at(file), 'utf8').split(from)).toHaveLength(2)
    if (story !== undefined) expect(existsSync(at(story)), story).toBe(true)
  },
)
