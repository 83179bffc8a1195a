import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { audit } from '../../src/cli/audit.ts'
import { backlog } from '../../src/cli/backlog.ts'
import type { Command } from '../../src/cli/command.ts'
import { db } from '../../src/cli/db.ts'
import { reconcile } from '../../src/cli/reconcile.ts'
import { readChain } from '../../src/platform/chained-file.ts'
import { openProviderWorld, type ProviderWorld } from '../sandbox/open-provider.ts'
import { copyDatabase, disconnectAll, dropDatabase, openWorld, setClock, type World } from '../world.ts'
import { runCommand } from './run-command.ts'

let provider: ProviderWorld
let world: World
let folder: string
let history: string
beforeAll(async () => {
  provider = await openProviderWorld()
  world = await openWorld({
    now: '2027-03-05T09:00:00+09:00',
    environment: { PROVIDER_BASE_URL: provider.sandbox.url, PROVIDER_SECRET_KEY: 'sk_test_any' },
  })
  await provider.clock.moveTo(world.app.clock())
  folder = mkdtempSync(join(tmpdir(), 'rankledger-commands-'))
  history = join(folder, 'history.jsonl')
})
afterAll(async () => {
  await world.close()
  await provider.close()
  rmSync(folder, { recursive: true })
})

const run = (command: Command, args: readonly string[], more: Record<string, string> = {}) =>
  runCommand(command, args, { ...world.environment, ...more })
const json = async (command: Command, args: readonly string[], more: Record<string, string> = {}) => {
  const { code, output } = await run(command, [...args, '--json'], more)
  return [code, JSON.parse(output)]
}
const subscribe = async (account: string, card = 'bk_test_ok') => {
  const { body } = await world.post('/api/billing/subscribe', {
    account_id: account,
    plan_id: 'starter-monthly',
    payment_method: { billing_key: card },
  })
  return body.data?.subscription_id as string
}

test.each<[string, Command, string, number, RegExp]>([
  ['audit', audit, '', 2, /^Say what to do: list, export or apply\.$/],
  ['audit', audit, 'export', 2, /^audit export takes one file\.$/],
  ['audit', audit, 'export one two', 2, /^audit export takes one file\.$/],
  ['audit', audit, 'apply', 2, /^audit apply takes one file\.$/],
  ['audit', audit, 'apply /nowhere/history.jsonl', 1, /^There is no such file\.$/],
  ['audit', audit, 'export /nowhere/history.jsonl', 1, /^The file cannot be written \(ENOENT\)/],
  ['audit', audit, `export ${tmpdir()}`, 1, /^The file cannot be read \(EISDIR\)/],
  ['audit', audit, `apply ${tmpdir()}`, 1, /^The file cannot be read \(EISDIR\)/],
  ['reconcile', reconcile, '--adopt --to 2026-04-01', 2, /^--from is missing\.$/],
  ['reconcile', reconcile, '--adopt --from 2026-03-01 --to 2026-04-01', 1, /stop-charging/],
  ['db', db, 'stop-charging now', 2, /the others nothing/],
  ['db', db, `stop-charging --cause ${'x'.repeat(201)}`, 2, /^--cause takes one line of 1 to 200 /],
  ['db', db, 'resume-charging --cause restore', 2, /^Only stop-charging takes --cause\.$/],
  ['db', db, 'resume-charging', 1, /^Charging is not stopped\.$/],
  ['backlog', backlog, 'unmatched settle pay_1 pay_2 --note x', 2, /^settle takes one payment and --note/],
  ['backlog', backlog, `unmatched settle pay_1 --note ${'x'.repeat(501)}`, 2, /^settle takes one payment/],
  ['backlog', backlog, 'unmatched settle pay_1 --note paid', 1, /^Nothing of that payment is unmatched/],
  ['backlog', backlog, 'unmatched retry --all', 1, /^No money is unmatched\.$/],
])(
  'rankledger %s, asked for what cannot be, says so in one sentence: %#',
  async (_, command, args, code, said) => {
    const before = await world.query('select count(*) from billing.charging_stop')
    const result = await run(command, args === '' ? [] : args.split(' '))
    expect(result.error.replace(/^.*progress.*\n/gm, '')).toMatch(said)
    expect(result.code).toBe(code)
    expect(await world.query('select count(*) from billing.charging_stop')).toEqual(before)
  },
)

test('charging is stopped and resumed, and status tells', async () => {
  const [code, stopped] = await json(db, ['stop-charging', '--cause', 'a look at the bank'])
  expect([code, stopped]).toMatchObject([0, { charging_stopped: { cause: 'a look at the bank' } }])
  expect((await run(db, ['stop-charging'])).output).toMatch(/resume-charging/)
  expect((await json(db, ['status']))[1]).toMatchObject({
    // The first cause is kept.
    charging_stopped: { cause: 'a look at the bank' },
  })
  expect(await json(db, ['resume-charging'])).toEqual([0, { charging_stopped: null }])
  expect((await run(db, ['resume-charging'])).code).toBe(1)
})

test('a file of history grows, and one that was cut, changed or belongs to others is refused', async () => {
  const subscription_id = await subscribe('leaves')
  const [, first] = await json(audit, ['export', history])
  expect(first).toMatchObject({ exported: 1, lines: 3 })
  await world.post('/api/billing/cancel', { subscription_id })
  const again = await run(audit, ['export', history])
  expect([again.code, again.output]).toEqual([0, expect.stringMatching(/^1 facts exported, 5 lines in all/)])

  expect(await run(audit, ['apply', history])).toMatchObject({
    code: 1,
    error: expect.stringMatching(/stop-charging/),
  })
  const whole = readFileSync(history, 'utf8')
  const cut = join(folder, 'cut.jsonl')
  writeFileSync(cut, whole.split('\n').slice(0, 2).join('\n'))
  for (const verb of ['export', 'apply'])
    expect(await run(audit, [verb, cut])).toMatchObject({
      code: 1,
      error: expect.stringMatching(/cut off at line 3/),
    })
  writeFileSync(cut, whole.replace('leaves', 'stays'))
  for (const verb of ['export', 'apply'])
    expect(await run(audit, [verb, cut])).toMatchObject({ code: 1, error: expect.stringMatching(/line 2/) })
  // Half of its first line, nothing at all, and another kind of file.
  for (const text of [whole.slice(0, 20), '', 'no history\n'])
    for (const flags of [[], ['--cut-off']]) {
      writeFileSync(cut, text)
      expect(await run(audit, ['apply', cut, ...flags])).toMatchObject({
        code: 1,
        error: expect.stringMatching(/No line of the file is whole/),
      })
    }

  const other = await openWorld()
  try {
    // Both were copied from one template.
    await other.query('alter table billing.installation disable trigger user')
    await other.query(`update billing.installation set id = 'another'`)
    for (const verb of ['export', 'apply'])
      expect(await runCommand(audit, [verb, history], other.environment)).toMatchObject({
        code: 1,
        error: expect.stringMatching(/another installation/),
      })
  } finally {
    await other.close()
  }
  expect(readFileSync(history, 'utf8')).toBe(whole)
})

test('of two exports at once the second changes nothing, and the file stays whole', async () => {
  const file = join(folder, 'twice.jsonl')
  const table = new pg.Client({ connectionString: world.databaseUrl })
  await table.connect()
  try {
    // The first one has read the file and gathers its lines.
    await table.query('begin; lock table billing.trial_grant in access exclusive mode')
    const first = run(audit, ['export', file])
    await expect.poll(waiting).toBe(1)
    let isOver = false
    const second = run(audit, ['export', file]).finally(() => {
      isOver = true
    })
    await expect.poll(async () => isOver || (await waiting()) === 2).toBe(true)
    await table.query('rollback')
    expect(await second).toMatchObject({
      code: 1,
      error: 'Another export of this installation is running; this one changed nothing.',
    })
    expect(await first).toMatchObject({ code: 0 })
  } finally {
    await table.end()
  }
  const whole = await readChain(file)
  expect(whole.closed).toBe(true)
  expect(await json(audit, ['export', file])).toMatchObject([0, { exported: 0, lines: whole.lines + 1 }])
})

async function waiting(): Promise<number> {
  const [row] = await world.query<{ count: number }>(
    `select count(*)::int from pg_locks where relation = 'billing.trial_grant'::regclass and not granted`,
  )
  return row!.count
}

describe('a restored database', () => {
  let copy: string
  afterAll(() => dropDatabase(copy))

  test('gets back by command what it has forgotten, and is told what cannot come back', async () => {
    await subscribe('stays')
    const goes = await subscribe('goes')
    const dumpedAt = world.app.clock().toISOString()
    await disconnectAll(world.databaseUrl)
    copy = await copyDatabase(world.databaseUrl)
    await world.post('/api/billing/cancel', { subscription_id: goes })
    const later = await subscribe('later')
    await world.advanceTo('2027-04-06T00:00:00+09:00')
    expect((await json(audit, ['export', history]))[0]).toBe(0)

    const restored = { DATABASE_URL: copy }
    await setClock(copy, world.app.clock())
    const now = world.app.clock().toISOString()
    const adopt = ['--adopt', '--from', dumpedAt, '--to', now]
    expect((await run(db, ['stop-charging', '--cause', 'restore'], restored)).code).toBe(0)
    expect(await json(audit, ['apply', history], restored)).toMatchObject([
      0,
      { cancellations: 2, erasures: 0, cards: [], lost: [{ subscription: later, account: 'later' }] },
    ])
    const said = await run(audit, ['apply', history], restored)
    expect(said.output).toMatch(/The file holds what was known at 2027-04-05T15[\d:.]+[+]00:00;/)
    expect(said.output).toMatch(/Brought back: 0 cancellations/)
    const [code, adopted] = await json(reconcile, adopt, restored)
    expect([code, adopted.adopted]).toEqual([1, 1])
    expect(adopted.differences.map((one: { kind: string }) => one.kind)).toEqual([
      'unknown_here',
      'unknown_here',
    ])
    const twice = await run(reconcile, adopt, restored)
    expect([twice.code, twice.output]).toEqual([
      1,
      expect.stringMatching(/^0 payments of 0 subscriptions taken over\./),
    ])
    expect((await run(db, ['resume-charging'], restored)).code).toBe(0)
    expect(await json(db, ['status'], restored)).toMatchObject([0, { charging_stopped: null }])
    const book = await provider.pool.query(
      `select account_id, count(*)::int from sandbox.payment where account_id in ('stays', 'goes') group by 1 order by 1`,
    )
    expect(book.rows).toEqual([
      { account_id: 'goes', count: 1 },
      { account_id: 'stays', count: 2 },
    ])
  })
})

test('a subscription that cannot be worked on is told by both commands, which end with 1 until it is put right', async () => {
  const [broken, other] = [await subscribe('bad_row'), await subscribe('good_row')]
  const dumpedAt = world.app.clock().toISOString()
  await disconnectAll(world.databaseUrl)
  const copy = await copyDatabase(world.databaseUrl)
  const owner = new pg.Client({ connectionString: copy })
  await owner.connect()
  try {
    for (const subscription_id of [broken, other])
      await world.post('/api/billing/cancel', { subscription_id })
    for (const subscription_id of [broken, other])
      await world.post('/api/billing/resume', { subscription_id })
    await world.advanceBy('P1M')
    for (const subscription_id of [broken, other])
      await world.post('/api/billing/cancel', { subscription_id })
    const file = join(folder, 'bad-row.jsonl')
    await json(audit, ['export', file])
    const restored = { DATABASE_URL: copy }
    await setClock(copy, world.app.clock())
    await run(db, ['stop-charging', '--cause', 'restore'], restored)
    await owner.query(`create function billing.refuse_one() returns trigger language plpgsql as $$
      begin raise exception 'broken row' using errcode = 'P0001'; end $$`)
    await owner.query(`create trigger refuse_one before update on billing.subscription
      for each row when (old.id = '${broken}') execute function billing.refuse_one()`)
    const told = { subject: broken, account: 'bad_row', reason: expect.stringContaining('P0001') }
    expect(await json(audit, ['apply', file], restored)).toMatchObject([
      1,
      { cancellations: 1, failed: [told] },
    ])
    const applied = await run(audit, ['apply', file], restored)
    expect([applied.code, applied.output]).toEqual([
      1,
      expect.stringMatching(
        /^1 subscriptions and single facts could not be brought back; .*\n.*\n.*bad_row/m,
      ),
    ])
    const adopt = ['--adopt', '--from', dumpedAt, '--to', world.app.clock().toISOString()]
    expect(await json(reconcile, adopt, restored)).toMatchObject([1, { adoption_failed: [told] }])
    const adopted = await run(reconcile, adopt, restored)
    expect([adopted.code, adopted.output]).toEqual([
      1,
      expect.stringMatching(/^1 subscriptions could not be taken over as a whole; .*\n.*\n.*bad_row/m),
    ])

    await owner.query('drop trigger refuse_one on billing.subscription')
    expect(await json(audit, ['apply', file], restored)).toMatchObject([0, { cancellations: 1, failed: [] }])
    expect(await json(reconcile, adopt, restored)).toMatchObject([0, { adopted: 1, adoption_failed: [] }])
  } finally {
    await owner.end()
    await dropDatabase(copy)
  }
})

describe('unmatched money', () => {
  test('is listed, retried and settled by command', async () => {
    expect((await run(backlog, ['unmatched', 'list'])).output).toBe('No money is unmatched.\n')
    for (const account of ['owed_1', 'owed_2']) await subscribe(account, 'bk_test_insufficient_funds')
    // The provider took the money after all, from a card that takes nothing back.
    await provider.pool.query(
      `update sandbox.payment set status = 'paid', decline_code = null, billing_key = 'bk_test_refund_fails'
       where account_id like 'owed_%'`,
    )
    const day = ['--from', '2027-03-01', '--to', '2027-12-01']
    const [code, { differences }] = (await json(reconcile, day)) as [number, { differences: unknown[] }]
    // The provider has the money; our own line says why it did not go back.
    expect(code).toBe(1)
    expect(differences).toMatchObject(
      Array(2).fill({ kind: 'unmatched', ours: { status: 'declined' }, provider: { status: 'paid' } }),
    )
    const [, { payments }] = (await json(backlog, ['unmatched', 'list'])) as [
      number,
      { payments: { payment_id: string }[] },
    ]
    expect(payments).toMatchObject(
      ['owed_1', 'owed_2'].map((account_id) => ({
        account_id,
        amount: 9900,
        currency: 'KRW',
        reason: 'declined',
      })),
    )
    const [one, two] = payments.map(({ payment_id }) => payment_id)
    expect(await json(backlog, ['unmatched', 'retry', one!, 'pay_nobody'])).toEqual([
      1,
      {
        payments: [
          { payment_id: one, outcome: 'declined' },
          { payment_id: 'pay_nobody', outcome: 'not_unmatched' },
        ],
      },
    ])
    expect(await json(backlog, ['unmatched', 'settle', one!, '--note', 'bank transfer'])).toEqual([
      0,
      { payment_id: one, outcome: 'settled' },
    ])
    expect((await run(backlog, ['unmatched', 'settle', one!, '--note', 'again'])).code).toBe(1)
    await provider.pool.query(
      `update sandbox.payment set billing_key = 'bk_test_ok' where account_id = 'owed_2'`,
    )
    expect(await json(backlog, ['unmatched', 'retry', '--all'])).toEqual([
      0,
      { payments: [{ payment_id: two, outcome: 'refunded' }] },
    ])
    expect((await run(reconcile, day)).code).toBe(0)
    expect((await json(db, ['status']))[1]).toMatchObject({ unmatched_money: { payments: 0 }, alarms: {} })
  })
})

test('what is whole of a file that was cut off is applied by those who know what it lacks', async () => {
  const [first, second, third] = [
    await subscribe('cut_1'),
    await subscribe('cut_2'),
    await subscribe('cut_3'),
  ]
  await disconnectAll(world.databaseUrl)
  const copy = await copyDatabase(world.databaseUrl)
  try {
    const file = join(folder, 'cut-off.jsonl')
    await world.post('/api/billing/cancel', { subscription_id: first })
    const [, { at: through }] = await json(audit, ['export', file])
    // As every instant is told, with its offset from UTC.
    expect(through).toMatch(/T[\d:.]+[+]00:00$/)
    await world.post('/api/billing/cancel', { subscription_id: second })
    await world.post('/api/billing/cancel', { subscription_id: third })
    await json(audit, ['export', file])
    const whole = readFileSync(file, 'utf8')
    const lines = whole.split('\n')
    const last = lines.findIndex((line) => line.includes(third) && line.includes('canceling'))
    const cut = [...lines.slice(0, last), lines[last]!.slice(0, 50)].join('\n')
    writeFileSync(file, cut)

    const restored = { DATABASE_URL: copy }
    await setClock(copy, world.app.clock())
    expect((await run(db, ['stop-charging', '--cause', 'restore'], restored)).code).toBe(0)
    const refused = await run(audit, ['apply', file], restored)
    expect(refused.code).toBe(1)
    expect(refused.error).toContain(`cut off at line ${last + 1}`)
    expect(refused.error).toContain(`may lack what happened after ${through}`)
    expect(refused.error).toContain('--cut-off')

    expect(await json(audit, ['apply', file, '--cut-off'], restored)).toMatchObject([
      0,
      { cancellations: 2, lost: [], lines: last, through, cut_off_at_line: last + 1 },
    ])
    const said = await run(audit, ['apply', file, '--cut-off'], restored)
    expect(said.output).toContain(`The file was cut off at line ${last + 1}`)
    expect(said.output).toContain('1 fact')
    // Nothing is appended to it, so that nobody takes it for whole.
    expect(await run(audit, ['export', file])).toMatchObject({
      code: 1,
      error: expect.stringContaining(`cut off at line ${last + 1}`),
    })
    expect(readFileSync(file, 'utf8')).toBe(cut)

    // A whole copy that turns up later brings the rest, and one that only lacks its last byte is whole.
    writeFileSync(file, whole.slice(0, -1))
    expect(await json(audit, ['apply', file], restored)).toMatchObject([
      0,
      { cancellations: 1, cut_off_at_line: null },
    ])
  } finally {
    await dropDatabase(copy)
  }
})
