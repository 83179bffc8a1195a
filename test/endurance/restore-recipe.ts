import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import pg from 'pg'
import { newToken } from '../../src/platform/access/token.ts'
import { findFreePort } from '../../src/platform/embedded-postgres/free-port.ts'
import { dropIfThere } from '../drop-database.ts'
import { runCommand, type ServiceProcess, startService } from '../processes/service-process.ts'
import { type Check, none as noneOf, report } from './report.ts'

/**
 * `npm run restore-recipe -- --server postgres://…`: the recipe of docs/runbook.md, step by step: the built service and
 * the provider as processes of their own, pg_dump and pg_restore from the PATH. A month passes after the dump, with
 * cancellations, an erasure, revoked and rotated tokens and money that goes back by hand; then the dump is restored, and two months
 * more pass. Exit 0 only if nobody paid twice or after leaving, nothing that was erased is back, and every invoice has
 * the number it had. With `--rest-days 3` the provider has forgotten every key by the time of the restore.
 */
const { values } = parseArgs({
  options: {
    server: { type: 'string' },
    accounts: { type: 'string', default: '50' },
    'rest-days': { type: 'string', default: '0' },
    json: { type: 'string' },
  },
})
if (values.server === undefined) throw new Error('Name a PostgreSQL server: --server postgres://…')
const serverUrl = values.server
const restDays = Number(values['rest-days'])
const folder = mkdtempSync(join(tmpdir(), 'rankledger-restore-'))
const dump = join(folder, 'backup.dump')
const history = join(folder, 'history.jsonl')
const token = newToken('test')
const port = await findFreePort()
const shared = {
  RANKLEDGER_DATA: join(folder, 'data'),
  VAULT_KEYS: `1:${randomBytes(32).toString('base64')}`,
  WEBHOOK_SECRETS: `whsec_${randomBytes(32).toString('base64')}`,
  PROVIDER_SECRET_KEY: `sk_test_${randomBytes(16).toString('hex')}`,
  BOOTSTRAP_TOKEN: token,
  PORT: String(port),
}
const running = new Set<ServiceProcess>()
const databases: string[] = []

try {
  const { checks, details } = await tryRecipe()
  report('restore-recipe', checks, details, values.json)
} finally {
  for (const one of running) await one.stop('SIGKILL')
  await onServer(async (client) => {
    for (const name of databases) await dropIfThere(client, name)
  })
  rmSync(folder, { recursive: true, force: true })
}

async function tryRecipe(): Promise<{ checks: Check[]; details: Record<string, unknown> }> {
  const providerBase = await startProvider()
  const first = { ...shared, DATABASE_URL: await createDatabase('service'), PROVIDER_BASE_URL: providerBase }
  let service = await start(['serve'], first)
  const ask = asker(`http://127.0.0.1:${port}`, token)
  const atProvider = asker(providerBase, shared.PROVIDER_SECRET_KEY)

  say('accounts subscribe')
  const names = Array.from({ length: Number(values.accounts) }, (_, at) => `acct_${at}`)
  for (const [at, account] of names.entries()) await subscribe(ask, account, cardAt(at))
  await ask.post('/api/billing/trial', { account_id: 'on_trial', plan_id: 'starter-monthly' })
  const [secondToken, rotatedToken] = [await makeToken(first), await makeToken(first)]
  await advance(ask, 'P10D')
  await command(['audit', 'export', history], first)
  const dumpedAt = await now(ask)
  await run('pg_dump', ['--format=custom', `--file=${dump}`, first.DATABASE_URL])

  say('a month passes')
  await advance(ask, 'P10D')
  const [left, erased, resumed, newCard] = [names.slice(0, 5), names[5]!, names[6]!, names[7]!]
  for (const account of [...left, erased, resumed]) await cancel(ask, account)
  await ask.post('/api/billing/resume', { subscription_id: await subscriptionOf(ask, resumed) })
  await ask.post('/api/billing/payment-method', {
    subscription_id: await subscriptionOf(ask, newCard),
    payment_method: { billing_key: 'bk_test_slow' },
  })
  await subscribe(ask, 'came_later', 'bk_test_ok')
  await command(['token', 'revoke', secondToken.id], first)
  await command(['token', 'rotate', rotatedToken.id, '--overlap', 'P60D'], first)
  await advance(ask, 'P21D')
  await ask.delete(`/api/billing/accounts/${erased}`)
  const [byHand, byUs, lost] = [names[8]!, names[9]!, names[10]!]
  await refundByHand(atProvider, (await newestPayment(ask, byHand)).reference)
  await ask.post('/api/billing/refund', {
    invoice_id: (await invoicesOf(ask, byUs))[0].invoice_id,
    amount: 900,
  })
  const { reference } = await newestPayment(ask, lost)
  for (const status of ['open', 'lost'])
    await ask.post('/api/sandbox/provider/disputes', { reference, status })
  if (restDays > 0) await advance(ask, `P${restDays}D`)
  // Notifications arrive by themselves.
  await sleep(3_000)
  await exportTwiceAtOnce(first)
  const before = await pictureOf(ask, names)
  const lostAt = await now(ask)
  const paidBefore = await paidPerAccount(atProvider)

  say('the database is lost, and the backup is restored')
  await stop(service)
  const second = { ...first, DATABASE_URL: await createDatabase('restored') }
  await run('pg_restore', ['--no-owner', '--exit-on-error', `--dbname=${second.DATABASE_URL}`, dump])
  await command(['db', 'stop-charging', '--cause', 'restore'], second)
  service = await start(['serve', '--charging-stopped'], second)
  await advanceTo(ask, lostAt)
  const applied = jsonOf(await command(['audit', 'apply', history, '--json'], second))
  const adopted = await runCommand(
    ['reconcile', '--adopt', '--from', dumpedAt, '--to', await now(ask), '--json'],
    second,
  )
  const reconciled = jsonOf(adopted.output)
  const ledger = await runCommand(['check-ledger'], second)
  const paidWhileStopped = await paidPerAccount(atProvider)
  await command(['db', 'resume-charging'], second)
  await sleep(3_000)
  const paidAtOnce = await paidPerAccount(atProvider)
  const after = await pictureOf(ask, names)
  const rotatedInOverlap = await statusWith(rotatedToken)

  say('two months more')
  await advance(ask, 'P61D')
  await sleep(2_000)
  const paidInTheEnd = await paidPerAccount(atProvider)
  const end = await now(ask)
  const book = await runCommand(['reconcile', '--from', '2020-01-01', '--to', end, '--json'], second)
  const alarms = jsonOf(await command(['db', 'alarms', '--json'], second)).alarms
  const erasedNow = await ask.get(`/api/billing/accounts/${erased}`)
  const [revoked, rotated] = [await statusWith(secondToken), await statusWith(rotatedToken)]
  await stop(service)

  const grown = (from: Map<string, number>, to: Map<string, number>, accounts: readonly string[]) =>
    accounts.filter((one) => to.get(one) !== from.get(one))
  const gone = [...left, erased]
  const doubled = await invoicesPaidTwice(second.DATABASE_URL)
  const checks = [
    none('accounts that paid while charging was stopped', grown(paidBefore, paidWhileStopped, names)),
    none('accounts that paid again when charging resumed', grown(paidBefore, paidAtOnce, names)),
    none('accounts that had cancelled and paid later', grown(paidBefore, paidInTheEnd, gone)),
    none('invoices with two payments', doubled),
    none(
      'accounts whose invoices are not what they were',
      names
        .filter((one) => JSON.stringify(before[one]) !== JSON.stringify(after[one]))
        .map((one) => `${one}: ${JSON.stringify(before[one])} → ${JSON.stringify(after[one])}`),
    ),
    none(
      'accounts that stay and did not pay two months more',
      names.filter(
        (one, at) =>
          !gone.includes(one) &&
          cardAt(at) === 'bk_test_ok' &&
          one !== newCard &&
          paidInTheEnd.get(one) !== paidBefore.get(one)! + 2,
      ),
    ),
    none('erased data that is back', erasedNow.text.includes('@mail.test') ? [erased] : []),
    none('revoked tokens that work', revoked === 401 ? [] : [String(revoked)]),
    none('rotated tokens that end early', rotatedInOverlap === 200 ? [] : [String(rotatedInOverlap)]),
    none('rotated tokens that outlive their overlap', rotated === 401 ? [] : [String(rotated)]),
    none(
      'differences but for what began after the backup',
      reconciled.differences.filter((one: { kind: string }) => one.kind !== 'unknown_here'),
    ),
    none('faults of the ledger', ledger.code === 0 ? [] : [ledger.output]),
  ]
  return {
    checks,
    details: {
      accounts: names.length,
      applied,
      adopted: reconciled.adopted,
      adoptExit: adopted.code,
      unknownHere: reconciled.differences.length,
      finalReconcileExit: book.code,
      finalDifferences: jsonOf(book.output).differences.map((one: { kind: string }) => one.kind),
      alarms: alarms.map(({ kind, subject }: { kind: string; subject: string }) => `${kind} ${subject}`),
      paidInAll: [...paidInTheEnd.values()].reduce((sum, one) => sum + one, 0),
    },
  }
}

type Asker = ReturnType<typeof asker>

// biome-ignore lint/suspicious/noExplicitAny: a script that reads what its checks need
type Answer = { status: number; text: string; data: any }

function asker(base: string, bearer: string) {
  const ask = async (method: string, path: string, body?: object): Promise<Answer> => {
    const answer = await fetch(base + path, {
      method,
      headers: {
        authorization: `Bearer ${bearer}`,
        ...(body && {
          'content-type': 'application/json',
          'idempotency-key': randomBytes(8).toString('hex'),
        }),
      },
      ...(body && { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
    const parsed = JSON.parse(text)
    return { status: answer.status, text, data: parsed.data ?? parsed }
  }
  return {
    get: (path: string) => ask('GET', path),
    post: (path: string, body: object) => ask('POST', path, body),
    delete: (path: string) => ask('DELETE', path),
  }
}

/** Most cards pay, some only once, so that a restore meets dunning too. */
function cardAt(at: number): string {
  return at % 12 === 11 ? 'bk_test_fails_on_renewal' : 'bk_test_ok'
}

async function subscribe(ask: Asker, account: string, card: string): Promise<void> {
  await ask.post('/api/billing/subscribe', {
    account_id: account,
    plan_id: 'starter-monthly',
    payment_method: { billing_key: card },
    customer: { email: `${account}@mail.test`, name: account },
  })
}

async function subscriptionOf(ask: Asker, account: string): Promise<string> {
  return (await ask.get(`/api/billing/subscriptions?account_id=${account}`)).data.subscriptions[0]
    .subscription_id
}

async function cancel(ask: Asker, account: string): Promise<void> {
  const subscription_id = await subscriptionOf(ask, account)
  await ask.post('/api/billing/cancel', { subscription_id, reason: 'does not need it any more' })
}

async function invoicesOf(ask: Asker, account: string) {
  return (await ask.get(`/api/billing/invoices?account_id=${account}&limit=100`)).data.invoices
}

async function newestPayment(ask: Asker, account: string): Promise<{ reference: string }> {
  return (await invoicesOf(ask, account))[0].payments.at(-1)
}

/** In the provider's own console, and nobody tells us by whom. */
async function refundByHand(atProvider: Asker, reference: string): Promise<void> {
  await atProvider.post(`/v1/charges/${reference}/refunds`, { reference: 'by-hand-1', amount: 500 })
}

type Picture = Record<string, unknown>

/** What a customer sees of each account. */
async function pictureOf(ask: Asker, accounts: readonly string[]): Promise<Picture> {
  const picture: Picture = {}
  for (const account of accounts) {
    const [subscription] = (await ask.get(`/api/billing/subscriptions?account_id=${account}`)).data
      .subscriptions
    const invoices = await invoicesOf(ask, account)
    picture[account] = {
      // The customer's own words are personal, and so are not in the history.
      status: [
        subscription.status,
        subscription.cancel_reason === 'payment_failed',
        subscription.canceled_at,
      ],
      // biome-ignore lint/suspicious/noExplicitAny: see Answer
      invoices: invoices.map((one: any) => [
        one.number,
        one.period_start,
        one.status,
        one.amount_paid,
        one.amount_refunded,
        // biome-ignore lint/suspicious/noExplicitAny: see Answer
        one.payments.map((payment: any) => [payment.reference, payment.status, payment.dispute?.status]),
      ]),
    }
  }
  return picture
}

/** How often the provider took money for each account. */
async function paidPerAccount(atProvider: Asker): Promise<Map<string, number>> {
  const counts = new Map<string, number>()
  for (let cursor = ''; ; ) {
    const { data } = await atProvider.get(`/__sandbox/payments?limit=100${cursor}`)
    for (const { account_id, status } of data.payments)
      if (status === 'paid') counts.set(account_id, (counts.get(account_id) ?? 0) + 1)
    if (data.next_cursor === null) return counts
    cursor = `&cursor=${encodeURIComponent(data.next_cursor)}`
  }
}

async function invoicesPaidTwice(url: string): Promise<string[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query<{ invoice_id: string }>(
    `select invoice_id from billing.payment where status = 'succeeded' group by invoice_id having count(*) > 1`,
  )
  await client.end()
  return rows.map(({ invoice_id }) => invoice_id)
}

async function makeToken(environment: Record<string, string>): Promise<{ id: string; token: string }> {
  const made = await command(['token', 'create', '--scope', 'admin', '--json'], environment)
  const { token_id, token } = jsonOf(made)
  return { id: token_id, token }
}

async function statusWith({ token }: { token: string }): Promise<number> {
  const headers = { authorization: `Bearer ${token}` }
  return (await fetch(`http://127.0.0.1:${port}/api/billing/plans`, { headers })).status
}

/** As cron does while the one before still runs: then one of them leaves it to the other. */
async function exportTwiceAtOnce(environment: Record<string, string>): Promise<void> {
  const args = ['audit', 'export', history]
  const both = await Promise.all([runCommand(args, environment), runCommand(args, environment)])
  if (both.every(({ code }) => code !== 0)) throw new Error(both.map(({ output }) => output).join('\n'))
}

async function now(ask: Asker): Promise<string> {
  return (await ask.get('/api/sandbox/clock')).data.now
}

async function advance(ask: Asker, duration: string): Promise<void> {
  await ask.post('/api/sandbox/clock', { advance_by: duration })
}

async function advanceTo(ask: Asker, instant: string): Promise<void> {
  await ask.post('/api/sandbox/clock', { advance_to: instant })
}

async function startProvider(): Promise<string> {
  const provider = await start(['sandbox', '--webhook-url', `http://127.0.0.1:${port}/api/billing/webhook`], {
    ...shared,
    DATABASE_URL: await createDatabase('provider'),
  })
  return provider.url()
}

async function start(args: string[], environment: Record<string, string>): Promise<ServiceProcess> {
  const service = startService(args, environment)
  running.add(service)
  await service.url()
  return service
}

async function stop(service: ServiceProcess): Promise<void> {
  await service.stop()
  running.delete(service)
}

/** One that must succeed; gives back what it printed. */
async function command(args: string[], environment: Record<string, string>): Promise<string> {
  const { code, output } = await runCommand(args, environment)
  say(`rankledger ${args.join(' ')} → ${code}`)
  if (code !== 0) throw new Error(`rankledger ${args.join(' ')} ended with ${code}:\n${output}`)
  return output
}

/** The document among lines of progress. */
// biome-ignore lint/suspicious/noExplicitAny: see Answer
function jsonOf(output: string): any {
  return JSON.parse(output.slice(output.search(/^\{/m), output.lastIndexOf('}') + 1))
}

async function run(program: string, args: readonly string[]): Promise<void> {
  const child = spawn(program, args, { stdio: ['ignore', 'inherit', 'inherit'] })
  const [code] = (await once(child, 'close')) as [number | null]
  if (code !== 0) throw new Error(`${program} ended with ${code}`)
}

async function createDatabase(purpose: string): Promise<string> {
  const name = `restore_${purpose}_${randomBytes(4).toString('hex')}`
  await onServer((client) => client.query(`create database ${name}`))
  databases.push(name)
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return url.toString()
}

async function onServer<T>(work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: serverUrl })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

function say(what: string): void {
  process.stderr.write(`${what}\n`)
}

function none(what: string, found: readonly unknown[]): Check {
  return noneOf(
    what,
    found.length,
    found.map((one) => (typeof one === 'string' ? one : JSON.stringify(one))),
  )
}
