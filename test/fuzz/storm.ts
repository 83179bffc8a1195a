import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { checkLedger } from '../../src/billing/ledger/check-ledger.ts'
import { reconcilePayments } from '../../src/billing/reconciliation/reconcile-payments.ts'
import { openNotifier } from '../../src/sandbox/notifier.ts'
import { startWorker } from '../../src/worker.ts'
import { type Random, seededRandom } from '../simulation/random.ts'
import { forgeries, type Notice, signedAt } from './forgeries.ts'
import type { Service } from './service.ts'
import { framed } from './sound-request.ts'
import { openWire } from './wire.ts'

export type StormOptions = {
  readonly seed: number
  readonly deliveries: number
  readonly forged: number
  /** How many customers pay before the storm. */
  readonly customers: number
  readonly onProgress?: (what: string, done: number, of: number) => void
}

export type Storm = {
  readonly events: number
  readonly deliveries: number
  readonly forged: number
  readonly seconds: number
  /** Payments of which we knew nothing certain until the storm told us to look. */
  readonly settledByNotification: number
  readonly statuses: Readonly<Record<string, number>>
  readonly faults: readonly string[]
}

/**
 * Makes real payments and refunds, captures the provider's own signed notifications, and delivers them many times over,
 * shuffled, among forgeries. Whatever arrives how often and in whatever order, the books must come out the same.
 */
export async function runStorm(service: Service, options: StormOptions): Promise<Storm> {
  const random = seededRandom(options.seed)
  await moveMoney(service, options)
  const notices = await captureNotices(service)
  const provider = await providersBook(service)
  const inDoubt = await countInDoubt(service)

  const worker = startWorker(service.app)
  let delivered: Delivered
  try {
    delivered = await deliverAll(service, random, notices, options)
    await inboxAtRest(service)
  } finally {
    await worker.stop()
  }
  return {
    events: notices.length,
    deliveries: options.deliveries,
    forged: options.forged,
    seconds: delivered.seconds,
    settledByNotification: inDoubt,
    statuses: Object.fromEntries(delivered.statuses),
    faults: [
      ...delivered.faults,
      ...(await inboxFaults(service, notices)),
      ...(await bookFaults(service, provider)),
      ...((await countInDoubt(service)) === 0 ? [] : ['payments are still in doubt after the storm']),
    ],
  }
}

const cards = ['ok', 'ok', 'ok', 'ok', 'insufficient_funds', 'ok', 'refund_fails', 'ok', 'stolen', 'ok']

/** Customers subscribe, some are declined, a third of the paid get money back; and some charges end in doubt. */
async function moveMoney(service: Service, { customers, onProgress }: StormOptions): Promise<void> {
  const token = await service.makeToken({})
  const ask = async (path: string, body: object) => {
    const answer = await fetch(service.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    return { status: answer.status, text: await answer.text() }
  }
  const subscribe = (name: string, card: string) =>
    ask('/api/billing/subscribe', {
      account_id: name,
      plan_id: 'pro-monthly',
      payment_method: { billing_key: `bk_test_${card}` },
    })
  let done = 0
  await inParallel(8, customers, async (at) => {
    const { status } = await subscribe(`storm-${at}`, cards[at % cards.length]!)
    if (status !== 201 && status !== 402) throw new Error(`subscribe answered ${status}`)
    onProgress?.('customers', ++done, customers)
  })
  const { rows: paid } = await service.app.pool.query<{ id: string }>(
    `select id from billing.invoice where status = 'paid' order by id`,
  )
  await inParallel(8, Math.floor(paid.length / 3), async (at) => {
    const invoice_id = paid[at * 3]!.id
    for (const amount of [1_000, 2_000]) {
      const { status } = await ask('/api/billing/refund', { invoice_id, amount })
      if (status !== 200 && status !== 402) throw new Error(`refund answered ${status}`)
    }
  })
  // The money moves, and neither the answer nor a lookup gets through to us.
  await ask('/api/sandbox/provider/faults', { garbage_rate: 1, lookup_error_rate: 1 })
  await inParallel(8, 8, async (at) => {
    await subscribe(`storm-doubt-${at}`, 'ok')
  })
  await ask('/api/sandbox/provider/faults', {})
}

/** Lets the sandbox deliver all it has to tell to a merchant who only writes it down. */
async function captureNotices(service: Service): Promise<Notice[]> {
  const caught = new Map<string, Notice>()
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const headers = Object.fromEntries(
        ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => [
          name,
          String(request.headers[name]),
        ]),
      )
      const id = headers['webhook-id']!
      caught.set(id, { id, headers, body: Buffer.concat(chunks) })
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const notifier = openNotifier({
    pool: service.app.pool,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    secrets: () => [service.webhookSecret],
    onError: (error) => {
      throw error
    },
  })
  try {
    await until(async () => (await countOf(service, `sandbox.delivery where status = 'waiting'`)) === 0)
  } finally {
    await notifier.close()
    server.close()
  }
  return [...caught.values()]
}

type Delivered = { seconds: number; statuses: Map<string, number>; faults: string[] }

const connections = 24
const retriedAfterMs = 120_000

/** Every event once, the rest copies by lot, and forgeries among them. */
async function deliverAll(
  service: Service,
  random: Random,
  notices: readonly Notice[],
  { deliveries, forged, onProgress }: StormOptions,
): Promise<Delivered> {
  const kinds = Object.keys(forgeries)
  const copies = Array.from({ length: deliveries }, (_, at) =>
    at < notices.length ? at : random.between(0, notices.length - 1),
  )
  const fakes = Array.from({ length: forged }, (_, at) => -1 - (at % kinds.length))
  const order = random.shuffled([...copies, ...fakes])
  const statuses = new Map<string, number>()
  const faults: string[] = []
  const firsts = new Set<string>()
  const wires = Array.from({ length: connections }, () => openWire(service.port))
  const startedAt = performance.now()
  await inParallel(connections, order.length, async (at, lane) => {
    const drawn = order[at]!
    const genuine = drawn >= 0
    // A sender signs each retry anew, so that it is not taken for an old one.
    const stale = performance.now() - startedAt > retriedAfterMs
    const original = notices[genuine ? drawn : random.between(0, notices.length - 1)]!
    const notice = stale ? signedAt(original, service.webhookSecret, 0) : original
    const sent = genuine ? notice : forgeries[kinds[-1 - drawn]!]!(notice, random, service.webhookSecret)
    const heard = await wires[lane]!.ask({
      bytes: bytesOf(sent),
      head: false,
      fresh: false,
      halfClose: false,
    })
    const status = heard.kind === 'answered' ? heard.status : heard.kind
    const name = genuine ? String(status) : `forged ${status}`
    statuses.set(name, (statuses.get(name) ?? 0) + 1)
    const body = heard.kind === 'answered' ? heard.body.toString() : ''
    if (status !== (genuine ? 200 : 401))
      faults.push(`${genuine ? 'genuine' : kinds[-1 - drawn]}: ${status} ${body}`)
    if (genuine && body.includes('"duplicate":false')) {
      if (firsts.has(notice.id)) faults.push(`${notice.id} was new twice`)
      firsts.add(notice.id)
    }
    onProgress?.('deliveries', at + 1, order.length)
  })
  for (const wire of wires) wire.close()
  if (firsts.size !== notices.length) faults.push(`${firsts.size} of ${notices.length} events were ever new`)
  return { seconds: (performance.now() - startedAt) / 1000, statuses, faults: faults.slice(0, 50) }
}

function bytesOf({ headers, body }: Notice): Buffer {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  return framed(
    [
      'POST /api/billing/webhook HTTP/1.1',
      'host: 127.0.0.1',
      'content-type: application/json',
      ...lines,
      `content-length: ${body.length}`,
    ],
    body,
  )
}

/** Each event has its one row, acted on or rightly ignored; nothing else has one. */
async function inboxFaults(service: Service, notices: readonly Notice[]): Promise<string[]> {
  const { rows } = await service.app.pool.query<{ event_id: string; status: string; reference: string }>(
    'select event_id, status, reference from billing.webhook',
  )
  const sent = new Set(notices.map(({ id }) => id))
  const stored = new Set(rows.map(({ event_id }) => event_id))
  return [
    ...rows
      .filter(({ event_id }) => !sent.has(event_id))
      .map(({ event_id }) => `${event_id} was stored and never sent`),
    ...[...sent].filter((id) => !stored.has(id)).map((id) => `${id} was sent and is not stored`),
    ...rows
      .filter(({ status }) => status !== 'done')
      .map(({ event_id, status }) => `${event_id} ended ${status}`),
  ]
}

/** The provider moved no money because of the storm, and our books say what its book says. */
async function bookFaults(service: Service, before: string): Promise<string[]> {
  const { app } = service
  const after = await providersBook(service)
  const now = app.clock().getTime()
  const [from, to] = [new Date(now - 86_400_000), new Date(now + 86_400_000)]
  const { repaired, differences } = await reconcilePayments(app.billing, from, to)
  const { faults } = await checkLedger(app.billing.db)
  const { rows: repeated } = await app.pool.query<{ what: string }>(`
    select format('%s of %s told %s times', type, about, count(*)) as what
    from (select type, coalesce(data ->> 'refund_id', data ->> 'payment_id', subscription_id) as about
          from billing.event) as told
    group by type, about having count(*) > 1`)
  return [
    ...(after === before ? [] : [`the provider's book was ${before} and is ${after}`]),
    ...[...repaired, ...differences].map(({ kind, reference }) => `${reference}: ${kind}`),
    ...faults.map(({ check, subject }) => `${check} of ${subject} does not add up`),
    ...repeated.map(({ what }) => what),
  ].slice(0, 50)
}

/** All the money the provider ever moved, in one line. */
async function providersBook(service: Service): Promise<string> {
  const { rows } = await service.app.pool.query<{ book: string }>(`
    select (select format('%s payments of %s', count(*), sum(amount)) from sandbox.payment where status = 'paid')
      || ', ' || (select format('%s declined', count(*)) from sandbox.payment where status = 'declined')
      || ', ' || (select format('%s refunds of %s', count(*), sum(amount)) from sandbox.refund) as book`)
  return rows[0]!.book
}

async function inboxAtRest(service: Service): Promise<void> {
  await until(
    async () =>
      (await countOf(service, `billing.webhook where status = 'waiting'`)) === 0 &&
      (await countInDoubt(service)) === 0,
  )
}

function countInDoubt(service: Service): Promise<number> {
  return countOf(service, `billing.payment where status in ('sending', 'unknown')`)
}

async function countOf(service: Service, from: string): Promise<number> {
  const { rows } = await service.app.pool.query<{ n: number }>(`select count(*)::int as n from ${from}`)
  return rows[0]!.n
}

/** Gives up after a minute; what is not at rest by then shows in the checks that follow. */
async function until(holds: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 300_000
  while (!(await holds()) && performance.now() < deadline) await sleep(50)
}

/** Runs work for 0 … count − 1 in so many lanes, each of which takes the next when it is free. */
async function inParallel(
  lanes: number,
  count: number,
  work: (at: number, lane: number) => Promise<void>,
): Promise<void> {
  let next = 0
  await Promise.all(
    Array.from({ length: Math.min(lanes, count) }, async (_, lane) => {
      while (next < count) await work(next++, lane)
    }),
  )
}
