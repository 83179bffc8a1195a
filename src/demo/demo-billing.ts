import { setTimeout as sleep } from 'node:timers/promises'
import { type Currency, formatMoney } from '../billing/money.ts'
import { type Answer, type ApiClient, DemoFailed } from './api-client.ts'
import { type Customer, type Deed, demoCustomers } from './demo-customers.ts'

export const demoSteps = 73
const stepsPerMonth = 6

/**
 * Lets fifty customers live through a year by the service's own API: every five days their deeds are done, then the clock
 * is moved on. Tells what came of it, line by line.
 */
export async function demoBilling(
  client: ApiClient,
  tokenFile: string,
  onProgress: (step: number, note: string) => void,
): Promise<string[]> {
  const { data: start } = await client.get('/api/sandbox/clock')
  // A new name for each run, because a trial is once per account for ever.
  const prefix = `demo-${Math.floor(Date.parse(start.now) / 1000).toString(36)}-`
  const customers = demoCustomers(prefix)
  for (let step = 0; step < demoSteps; step++) {
    onProgress(step, `month ${Math.floor(step / stepsPerMonth) + 1}`)
    await inParallel(customers, 8, async (customer) => {
      const deeds = customer.deeds.filter(({ month }) => month * stepsPerMonth === step)
      for (const deed of deeds) await act(client, customer, deed)
    })
    await rescue(client, customers)
    await advance(client, 'P5D')
  }
  onProgress(demoSteps, 'done')
  return summarise(client, prefix, start.now, tokenFile)
}

/** Some of those whose card no longer pays bring a new one before the last retry. */
async function rescue(client: ApiClient, customers: readonly Customer[]): Promise<void> {
  const { data } = await client.get('/api/billing/subscriptions?status=past_due&limit=100')
  for (const customer of customers) {
    const isPastDue = data.subscriptions.some((one: Row) => one['account_id'] === customer.accountId)
    if (isPastDue && customer.hasAnotherCard) {
      await act(client, customer, { kind: 'change_card', card: 'bk_test_ok', month: 0 })
    }
  }
}

async function act(client: ApiClient, { accountId, name, timezone }: Customer, deed: Deed): Promise<void> {
  switch (deed.kind) {
    case 'subscribe': {
      const customer = { name, email: `${accountId}@example.com` }
      const payment_method = { billing_key: deed.card }
      const wish = { account_id: accountId, plan_id: deed.plan, payment_method, timezone, customer }
      expect(await client.post('/api/billing/subscribe', wish), [201, 202, 402])
      return
    }
    case 'trial':
      expect(await client.post('/api/billing/trial', { account_id: accountId, plan_id: deed.plan }), [201])
      return
    case 'change_card': {
      const subscription_id = await subscriptionOf(client, accountId)
      const payment_method = { billing_key: deed.card }
      if (subscription_id === undefined) return
      expect(
        await client.post('/api/billing/payment-method', { subscription_id, payment_method }),
        [200, 202, 402],
      )
      return
    }
    case 'cancel':
    case 'resume': {
      const subscription_id = await subscriptionOf(client, accountId)
      if (subscription_id === undefined) return
      const reason = deed.kind === 'cancel' && deed.reason !== undefined ? { reason: deed.reason } : {}
      expect(await client.post(`/api/billing/${deed.kind}`, { subscription_id, ...reason }), [200])
      return
    }
    case 'refund': {
      const found = await client.get(`/api/billing/invoices?account_id=${accountId}&status=paid&limit=1`)
      const invoice = found.data.invoices[0]
      if (!invoice) return
      const amount = Math.max(1, Math.floor((invoice.amount_paid * deed.percent) / 100))
      const wish = { invoice_id: invoice.invoice_id, amount, reason: deed.reason }
      expect(await client.post('/api/billing/refund', wish), [200, 202])
    }
  }
}

function expect(answer: Answer, statuses: readonly number[]): void {
  if (statuses.includes(answer.status)) return
  throw new DemoFailed(
    `The service answered ${answer.status} (${answer.code ?? 'no code'}), which the demo did not expect.`,
  )
}

async function subscriptionOf(client: ApiClient, accountId: string): Promise<string | undefined> {
  const { data } = await client.get(`/api/billing/subscriptions?account_id=${accountId}&limit=1`)
  const [newest] = data.subscriptions
  return newest && newest.status !== 'canceled' ? newest.subscription_id : undefined
}

/** Moves the clock and waits until it stands; a long move goes on after its answer. */
async function advance(client: ApiClient, duration: string): Promise<void> {
  for (;;) {
    const moved = await client.post('/api/sandbox/clock', { advance_by: duration })
    expect(moved, [200, 202, 409])
    if (moved.code === 'clock_fixed')
      throw new DemoFailed('This service cannot move its clock; see PROVIDER_BASE_URL.')
    while ((await client.get('/api/sandbox/clock')).data.moving) await sleep(500)
    if (moved.status !== 409) return
  }
}

async function inParallel<T>(
  items: readonly T[],
  width: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const rest = [...items]
  const next = async (): Promise<void> => {
    for (let item = rest.shift(); item !== undefined; item = rest.shift()) await work(item)
  }
  await Promise.all(Array.from({ length: width }, next))
}

type Row = Record<string, unknown>

async function summarise(
  client: ApiClient,
  prefix: string,
  startedAt: string,
  tokenFile: string,
): Promise<string[]> {
  const mine = (row: Row) => String(row['account_id']).startsWith(prefix)
  const subscriptions = (await readAll(client, '/api/billing/subscriptions', 'subscriptions')).filter(mine)
  const invoices = (await readAll(client, '/api/billing/invoices', 'invoices')).filter(mine)
  const book = (await readAll(client, '/api/sandbox/provider/payments', 'payments')).filter(mine)
  const { data: clock } = await client.get('/api/sandbox/clock')

  const ours = netByCurrency(invoices, 'amount_paid')
  const theirs = netByCurrency(
    book.filter((payment) => payment['status'] === 'paid'),
    'amount',
  )
  const agree = [...new Set([...ours.keys(), ...theirs.keys()])].every(
    (one) => ours.get(one) === theirs.get(one),
  )
  const accounts = new Set(subscriptions.map((one) => one['account_id']))
  const example = invoices.find((one) => one['status'] === 'partially_refunded') ?? invoices[0]
  return [
    '',
    `A year has passed: ${startedAt.slice(0, 10)} to ${String(clock.now).slice(0, 10)}, ${accounts.size} accounts named ${prefix}…`,
    '',
    `  Subscriptions  ${tally(subscriptions)}`,
    `  Invoices       ${tally(invoices)}`,
    `  Our book       ${money(ours)} taken and kept`,
    `  Provider       ${money(theirs)} taken and kept${agree ? ': both books agree' : ': THE BOOKS DIFFER'}`,
    '',
    'Look at it next:',
    `  ${client.url}/docs`,
    `  export TOKEN="$(cat '${tokenFile}')"`,
    `  curl -s '${client.url}/api/billing/subscriptions?status=past_due' -H "Authorization: Bearer $TOKEN"`,
    ...(example
      ? [
          `  curl -s '${client.url}/api/billing/subscriptions/${example['subscription_id']}/timeline' -H "Authorization: Bearer $TOKEN"`,
          `  curl -s '${client.url}/api/billing/invoices/${example['invoice_id']}.pdf' -H "Authorization: Bearer $TOKEN" > invoice.pdf`,
        ]
      : []),
    '  npx rankledger check-ledger',
    `  npx rankledger reconcile --from ${startedAt} --to ${clock.now}`,
    ...(agree
      ? []
      : ['', 'Charges without an answer settle within a minute; `rankledger reconcile` tells what stays.']),
  ]
}

async function readAll(client: ApiClient, path: string, plural: string): Promise<Row[]> {
  const rows: Row[] = []
  let cursor: string | null = null
  do {
    const query = cursor === null ? '?limit=100' : `?limit=100&cursor=${encodeURIComponent(cursor)}`
    const { data } = await client.get(path + query)
    rows.push(...data[plural])
    cursor = data.next_cursor
  } while (cursor !== null)
  return rows
}

function netByCurrency(rows: readonly Row[], taken: string): Map<Currency, bigint> {
  const net = new Map<Currency, bigint>()
  for (const row of rows) {
    const currency = row['currency'] as Currency
    const left = BigInt(row[taken] as number) - BigInt(row['amount_refunded'] as number)
    net.set(currency, (net.get(currency) ?? 0n) + left)
  }
  return net
}

function money(net: ReadonlyMap<Currency, bigint>): string {
  return [...net]
    .sort()
    .map(([currency, minor]) => formatMoney({ minor, currency }))
    .join(' and ')
}

function tally(rows: readonly Row[]): string {
  const counts = new Map<string, number>()
  for (const row of rows) counts.set(String(row['status']), (counts.get(String(row['status'])) ?? 0) + 1)
  return [...counts]
    .sort()
    .map(([status, count]) => `${count} ${status}`)
    .join(', ')
}
