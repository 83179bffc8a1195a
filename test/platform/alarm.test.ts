import { afterAll, beforeAll, expect, test } from 'vitest'
import { db } from '../../src/cli/db.ts'
import { claimUnlogged, clearAlarm, listAlarms, raiseAlarm } from '../../src/platform/alarm.ts'
import { runCommand } from '../billing/run-command.ts'
import { openWorld, type World } from '../world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const at = (second: number) => new Date(Date.UTC(2026, 10, 15, 9, 0, second))
const differs = { kind: 'amount_differs', subject: 'pay_1', note: 'Look at the provider’s console.' }
const run = (...args: string[]) => runCommand(db, args, world.environment)
const metrics = async () => (await world.get('/metrics')).text

test('an alarm is raised once, counted when it repeats, shown everywhere, and gone once cleared', async () => {
  const { db } = world.app.billing
  await raiseAlarm(db, differs, at(0))
  await raiseAlarm(db, differs, at(5))
  expect(await listAlarms(db, 10)).toEqual([{ ...differs, raisedAt: at(0), lastAt: at(5), count: 2 }])

  expect(JSON.parse((await run('status', '--json')).output).alarms).toEqual({ amount_differs: 1 })
  expect((await run('status')).output).toMatch(/ALARMS +amount_differs 1/)
  expect((await run('alarms')).output).toMatch(/amount_differs +pay_1 +2 .*Look at the provider/)
  expect(await metrics()).toContain('rankledger_alarms{kind="amount_differs"} 1')

  const cleared = await run('clear-alarm', 'amount_differs', 'pay_1', '--json')
  expect(JSON.parse(cleared.output)).toMatchObject({ kind: 'amount_differs', outcome: 'cleared' })
  expect((await run('clear-alarm', 'amount_differs', 'pay_1')).code).toBe(1)
  expect((await run('clear-alarm', 'amount_differs')).code).toBe(2)
  expect((await run('alarms')).output).toBe('No alarm is raised.\n')
  expect(await metrics()).not.toContain('rankledger_alarms{')
})

test('of several processes one writes an alarm to its log, and it is written anew after it was cleared', async () => {
  const { db } = world.app.billing
  await raiseAlarm(db, differs, at(0))
  const claims = await Promise.all([claimUnlogged(db), claimUnlogged(db), claimUnlogged(db)])
  expect(claims.flat()).toEqual([{ kind: 'amount_differs', subject: 'pay_1' }])
  await raiseAlarm(db, differs, at(1))
  expect(await claimUnlogged(db)).toEqual([])
  expect(await clearAlarm(db, 'amount_differs', 'pay_1')).toBe(true)
  await raiseAlarm(db, differs, at(2))
  expect(await claimUnlogged(db)).toHaveLength(1)
})
