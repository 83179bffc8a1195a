import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { deathPlaces } from './boundaries.ts'
import { crashEverywhere } from './crash-run.ts'
import { openStage, type Stage } from './stage.ts'
import { courses, uses } from './uses.ts'

let stage: Stage
beforeAll(async () => {
  stage = await openStage(inject('postgresUrl'))
})
afterAll(() => stage.close())

// Every course and every statement is died at by a command of its own; here, the plainest course of each use.
const plainest = uses.map((use) => [use, courses.find((course) => course.use === use)!] as const)

test.each(plainest)('%s comes to the same wherever its process dies', async (_, course) => {
  const { failures, deaths, places } = await crashEverywhere(stage, course, 1, { only: new Set(deathPlaces) })
  expect(failures).toEqual([])
  expect(places).toMatchObject({ 'before commit': expect.any(Number), 'after commit': expect.any(Number) })
  expect(deaths).toBe(Object.values(places).reduce((sum, count) => sum + count, 0))
})

// A sweep asks again and again whether its calls have ended; one that hangs must not keep the run from coming to rest.
const hanging = courses.filter(({ name }) => name.startsWith('hangs'))

test.each(hanging)('$use: $name comes to rest', async (course) => {
  const { failures } = await crashEverywhere(stage, course, 1, { only: new Set() })
  expect(hanging.length).toBeGreaterThan(2)
  expect(failures).toEqual([])
})
