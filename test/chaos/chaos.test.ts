import { expect, test } from 'vitest'
import type { Victim } from './kills.ts'
import { runChaos } from './run-chaos.ts'

test('processes, links and the database are killed and cut under load, and nothing is lost, doubled or left undone', async () => {
  const victims: Victim[] = ['serve', 'work', 'sandbox', 'postmaster']
  const report = await runChaos({
    seed: 20_261_115,
    clients: 4,
    pace: { killEveryMs: 1_500, illMs: 1_000 },
    isEnough: ({ recoveries }, elapsedMs) =>
      elapsedMs > 12_000 && victims.every((one) => recoveries.some(({ victim }) => victim === one)),
  })
  expect(report.violations).toEqual([])
  expect(report.acknowledged).toBeGreaterThan(10)
  expect(report.charges).toBeGreaterThan(5)
})
