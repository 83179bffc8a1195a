import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { patience } from '../patience.ts'
import { databaseUrl } from '../postgres.ts'
import { runCommand, type ServiceProcess, startService } from '../processes/service-process.ts'
import { dropDatabase, setClock } from '../world.ts'
import { type Asker, openAsker } from './asker.ts'
import { readDatabase, readRecorded } from './former-release.ts'
import { names, workspace_id } from './two-months.ts'

/** The database of the first release with frozen migrations, as its service left it, brought to this one. */
const recorded = readRecorded()
const running: ServiceProcess[] = []
let url: string
let dataDir: string
let environment: Record<string, string>
let ask: Asker

beforeAll(async () => {
  const name = `former_${randomBytes(6).toString('hex')}`
  url = databaseUrl(inject('postgresUrl'), name)
  await query(inject('postgresUrl'), `create database ${name} template template0`)
  await query(url, readDatabase())
  await setClock(url, new Date(recorded.now))
  dataDir = mkdtempSync(join(tmpdir(), 'rankledger-upgrade-'))
  environment = {
    ...patience,
    ...recorded.environment,
    DATABASE_URL: url,
    RANKLEDGER_DATA: dataDir,
    PORT: '0',
    SERPAPI_API_KEY: 'made-up',
    SERPAPI_BASE_URL: await start(['sandbox', '--as', 'serpapi', '--port', '0']),
  }
})
afterAll(async () => {
  for (const process of running) await process.stop()
  await dropDatabase(url)
  rmSync(dataDir, { recursive: true, force: true })
})

test('commands refuse the former schema until it is migrated', async () => {
  const { code, output } = await runCommand(['check-model'], environment)
  expect(code).toBe(1)
  expect(output).toContain('rankledger migrate')
})

test('every table that the former release filled keeps its rows', async () => {
  const before = await rowCounts()
  const { code, output } = await runCommand(['migrate'], environment)
  expect(code, output).toBe(0)
  const after = await rowCounts()
  expect({ ...after, 'platform.migration': before['platform.migration'] }).toMatchObject(before)
  expect(Object.keys(after)).not.toEqual(Object.keys(before))
})

test('everything that could be read is read as before', async () => {
  // Nobody works on what is due, so that it stands as it stood.
  const reader = openAsker(await start(['serve', '--no-worker']), recorded.environment.BOOTSTRAP_TOKEN)
  expect(Object.keys(recorded.answers).length).toBeGreaterThan(60)
  for (const [path, data] of Object.entries(recorded.answers))
    expect((await reader.get(path)).data, path).toMatchObject(asBefore(path, data as object))
})

/** A timeline tells more of what comes next than it did: what is in doubt, too. */
function asBefore(path: string, data: object & { next?: unknown[] }): object {
  return path.endsWith('/timeline') ? { ...data, next: expect.arrayContaining(data.next!) } : data
}

test('a key that had answered before is answered with the same bytes', async () => {
  ask = openAsker(await start(['serve']), recorded.environment.BOOTSTRAP_TOKEN)
  const { path, body, key, status, text } = recorded.kept.answered
  expect(status).toBe(201)
  expect(await ask.post(path, body, key)).toMatchObject({ status, text })
})

test('an alarm of the former release has the name of this one', async () => {
  const { output } = await runCommand(['db', 'alarms', '--json'], environment)
  expect(output).toContain('payment_method_not_deleted')
  expect(output).not.toContain('card_not_deleted')
})

test('a charge and a refund in doubt settle once the provider speaks again', async () => {
  await ask.post('/api/sandbox/provider/faults', {})
  const { path, body, key, status } = recorded.kept.unanswered
  expect(status).toBe(202)
  await expect.poll(async () => (await ask.post(path, body, key)).status).toBe(201)
  const refunds = async () => (await ask.invoicesOf('in_doubt'))[0]!['refunds']
  await expect.poll(refunds).toMatchObject([{ amount: 500, status: 'succeeded' }])
  expect(await paidBy('unsure')).toBe(1)
})

test('invoices of the former release are printed', async () => {
  const [invoice] = await ask.invoicesOf('part_back')
  const { status, text } = await ask.raw(`/api/billing/invoices/${invoice!['invoice_id']}.pdf`)
  expect(status).toBe(200)
  expect(text.startsWith('%PDF-')).toBe(true)
})

test('what falls due in the next month is charged once', async () => {
  const stay = ['stays', 'part_back', 'all_back', 'disputes', 'new_card', 'in_doubt', 'nearly_left', 'unsure']
  const before = await Promise.all(stay.map(paidBy))
  await ask.advance('P1M')
  expect(await Promise.all(stay.map(paidBy))).toEqual(before.map((count) => count + 1))
  expect(await paidBy('tries_and_stays')).toBe(1)
  expect(await statusOf('tries')).toBe('canceled')
  expect(await paidBy('leaves')).toBe(1)
  expect(await statusOf('gone')).toBe('canceled')
})

test('new ranks join the old ones, and the old model answers', async () => {
  const [keyword] = names
  const path = `/api/batch/ranks/${encodeURIComponent(keyword!)}?workspace_id=${workspace_id}`
  const known = ((await ask.get(path)).data['ranks'] as object[]).length
  const day = String((await ask.get('/api/sandbox/clock')).data['now']).slice(0, 10)
  const observations = [{ keyword, day, status: 'ranked', position: 1 }]
  expect((await ask.post('/api/batch/ranks', { workspace_id, observations })).data).toMatchObject({
    inserted: 1,
  })
  expect((await ask.get(path)).data['ranks']).toHaveLength(known + 1)
  const { code, output } = await runCommand(['check-model', '--max-age', '400d'], environment)
  expect(code, output).toBe(0)
  expect((await ask.run('predict'))['status']).toBe('succeeded')
})

test('the tracker goes on', async () => {
  const { data } = await ask.get(`/api/batch/trackers/daily?workspace_id=${workspace_id}`)
  expect(Date.parse(String(data['last_check_at']))).toBeGreaterThan(Date.parse(recorded.now))
})

test('the books agree', async () => {
  for (const args of [['check-ledger'], ['reconcile', '--from', '2026-01-01', '--to', '2030-01-01']]) {
    const { code, output } = await runCommand(args, environment)
    expect(code, output).toBe(0)
  }
})

/** How often the provider took money for an account. */
async function paidBy(account: string): Promise<number> {
  const payments = await ask.list('/api/sandbox/provider/payments', 'payments')
  return payments.filter((one) => one['account_id'] === account && one['status'] === 'paid').length
}

async function statusOf(account: string): Promise<unknown> {
  const [newest] = await ask.list(`/api/billing/subscriptions?account_id=${account}`, 'subscriptions')
  return newest!['status']
}

async function rowCounts(): Promise<Record<string, number>> {
  const { rows } = await query(
    url,
    `select n.nspname || '.' || c.relname as name,
       (xpath('/row/c/text()', query_to_xml(format('select count(*) as c from %s', c.oid::regclass), false, true, '')))[1]::text::int as count
     from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where c.relkind = 'r' and n.nspname in ('platform', 'billing', 'batch', 'sandbox') order by 1`,
  )
  return Object.fromEntries(rows.map(({ name, count }) => [name, count]))
}

async function start(args: string[]): Promise<string> {
  const process = startService(args, environment ?? {})
  running.push(process)
  return process.url()
}

async function query(on: string, text: string) {
  const client = new pg.Client({ connectionString: on })
  await client.connect()
  return client.query(text).finally(() => client.end())
}
