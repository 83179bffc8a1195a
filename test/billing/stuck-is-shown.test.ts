import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { backlog } from '../../src/cli/backlog.ts'
import type { Command } from '../../src/cli/command.ts'
import { db } from '../../src/cli/db.ts'
import { reconcile } from '../../src/cli/reconcile.ts'
import { openWorld, type World } from '../world.ts'
import { runCommand } from './run-command.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({ now: '2026-03-05T09:00:00+09:00' })
})
afterAll(() => world.close())

const run = (command: Command, words: string) => runCommand(command, words.split(' '), world.environment)
const status = async () => JSON.parse((await run(db, 'status --json')).output)
/** The lines of the status that begin so. */
const linesOf = async (word: string) =>
  (await run(db, 'status')).output.split('\n').filter((line) => line.startsWith(word))
/** A number by its name and labels; undefined while it is not told. */
const number = async (sample: string): Promise<number | undefined> => {
  const { text } = await world.get('/metrics', { token: null })
  const line = text.split('\n').find((one) => one.startsWith(`${sample} `))
  return line === undefined ? undefined : Number(line.slice(sample.length))
}
const subscribe = async (account: string, card: string): Promise<string> => {
  const { body } = await world.post('/api/billing/subscribe', {
    account_id: account,
    plan_id: 'starter-monthly',
    payment_method: { billing_key: card },
  })
  return body.data?.subscription_id
}

test('money that pays for nothing stands in the status and in the numbers until it is gone', async () => {
  for (const account of ['owed_1', 'owed_2']) await subscribe(account, 'bk_test_insufficient_funds')
  // The provider took the money after all, from a card that takes nothing back.
  await world.query(
    `update sandbox.payment set status = 'paid', decline_code = null, billing_key = 'bk_test_refund_fails'`,
  )
  expect((await run(reconcile, '--from 2026-03-01 --to 2026-04-01')).code).toBe(1)
  expect((await world.advanceBy('P1D')).status).toBe(200)

  const stuck = { payments: 2, declined: 2, disputed: 0, given_back_twice: 0, other: 0 }
  const { unmatched_money: told } = await status()
  expect(told).toEqual({ ...stuck, oldest_seconds: expect.any(Number) })
  expect(told.oldest_seconds).toBeGreaterThanOrEqual(86_400)
  expect(await linesOf('UNMATCHED')).toEqual([
    expect.stringMatching(/^UNMATCHED +2 payments .*`rankledger backlog unmatched list`$/),
  ])
  expect(await number('rankledger_unmatched_money{reason="declined"}')).toBe(2)
  expect(await number('rankledger_unmatched_money{reason="disputed"}')).toBe(0)
  expect(await number('rankledger_unmatched_money_oldest_seconds')).toBeGreaterThanOrEqual(86_400)

  await world.query(`update sandbox.payment set billing_key = 'bk_test_ok'`)
  expect((await run(backlog, 'unmatched retry --all')).code).toBe(0)
  expect((await status()).unmatched_money).toEqual({ ...stuck, payments: 0, declined: 0, oldest_seconds: 0 })
  expect(await linesOf('UNMATCHED')).toEqual([])
  expect(await number('rankledger_unmatched_money{reason="declined"}')).toBe(0)
  expect(await number('rankledger_unmatched_money_oldest_seconds')).toBe(0)
})

describe('rows that a sweep cannot work on', () => {
  const broken: string[] = []
  beforeAll(async () => {
    for (let n = 0; n < 12; n++) broken.push(await subscribe(`broken_${n}`, 'bk_test_ok'))
    await world.query(`update billing.subscription set time_zone = 'Mars/Olympus' where id = any ($1)`, [
      broken,
    ])
    await world.advanceBy('P1M')
  })
  const failures = 'rankledger_sweep_failures{sweep="renewals"}'

  test('stand in the status, each by its name, and are counted', async () => {
    const { sweep_failures: told } = await status()
    expect(told.map((one: { subject: string }) => one.subject).sort()).toEqual(broken.toSorted())
    expect(told[0]).toEqual({
      sweep: 'renewals',
      subject: expect.any(String),
      reason: expect.stringMatching(/./),
      failures: 1,
      since: expect.stringMatching(/^2026-04-/),
    })
    const [first, ...others] = await linesOf('BROKEN ROW')
    expect(first).toMatch(/^BROKEN ROW +sub_\w+: renewals failed 1 times \(\w+\); the rest goes on$/)
    expect(others).toHaveLength(9)
    expect((await run(db, 'status')).output).toContain('and more; see --json')
    expect(await number(failures)).toBe(12)
  })

  test('are gone from both once they can be worked on', async () => {
    await world.query(`update billing.subscription set time_zone = 'UTC' where time_zone = 'Mars/Olympus'`)
    await world.query('update billing.sweep_failure set next_try_at = clock_timestamp()')
    await world.advanceBy('PT1S')
    expect((await status()).sweep_failures).toEqual([])
    expect(await linesOf('BROKEN ROW')).toEqual([])
    expect(await number(failures)).toBeUndefined()
  })
})
