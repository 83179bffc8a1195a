import { createHmac } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { type JsonAnswer, openFetchJson } from '../platform/fetch-json.ts'

/** Something that happened to a payment. */
export type ProviderEvent = {
  readonly id: string
  /** `payment.paid`, `payment.declined`, `payment.refunded` and so on, as the book calls it. */
  readonly type: string
  readonly reference: string
  readonly refundReference: string | null
  readonly happenedAt: Date
}

export type Notification = { readonly headers: Readonly<Record<string, string>>; readonly body: string }

export type NotifierOptions = {
  readonly pool: pg.Pool
  readonly url: string | undefined
  readonly secrets: () => readonly string[]
  /** How the provider tells it; undefined where it says nothing of this. */
  readonly render?: (event: ProviderEvent, secret: string) => Promise<Notification | undefined>
  readonly onError: (error: unknown) => void
}

export type Notifier = {
  /** Something may be waiting; looks now instead of at the next turn. */
  wake(): void
  close(): Promise<void>
}

const lookEveryMs = 250
const gatherMs = 40
// How long a merchant may still take to answer when this process is about to end.
const patienceMs = 2_000
const mostInFlight = 32
const timeoutMs = 15_000
// A sender that dies with a notification in hand leaves it to the others after this long.
const leaseMs = 30_000

const second = 1_000
const minute = 60 * second
const hour = 60 * minute
/** Waits after each failed try; after the last one the merchant is given up, some 75 hours after the first try. */
const waitsMs = [
  second,
  5 * second,
  30 * second,
  5 * minute,
  30 * minute,
  2 * hour,
  5 * hour,
  10 * hour,
  14 * hour,
  20 * hour,
  24 * hour,
]

type Delivery = {
  id: bigint
  event_id: string
  type: string
  reference: string
  refund_reference: string | null
  happened_at: Date
  tries: number
}

type Verdict = { id: bigint; status: 'waiting' | 'delivered' | 'given_up'; waitMs: number }

/** Sends the merchant's notifications, signed, until each was taken. Any number of processes may send side by side. */
export function openNotifier({
  pool,
  url,
  secrets,
  render = inOwnWords,
  onError,
}: NotifierOptions): Notifier {
  if (url === undefined) return { wake: () => {}, close: async () => {} }

  const fetchJson = openFetchJson({ timeoutMs, maxConnections: mostInFlight, maxAnswerBytes: 64 * 1024 })
  const stop = new AbortController()
  const bell = openBell(stop.signal)
  const settle = openSettler(pool, onError)
  const inFlight = new Set<Promise<void>>()

  const deliver = async (delivery: Delivery): Promise<void> => {
    const [secret] = secrets()
    if (secret === undefined) return
    const notification = await render(eventOf(delivery), secret)
    if (!notification) return settle({ id: delivery.id, status: 'delivered', waitMs: 0 })
    const { headers, body } = notification
    settle(verdictOn(delivery, await fetchJson({ method: 'POST', url, headers, body })))
  }

  const send = (delivery: Delivery) => {
    const sending = deliver(delivery)
      .catch(onError)
      .finally(() => {
        inFlight.delete(sending)
        if (inFlight.size === mostInFlight / 2) bell.ring()
      })
    inFlight.add(sending)
  }

  const run = async () => {
    while (!stop.signal.aborted) {
      const room = mostInFlight - inFlight.size
      if (room < mostInFlight / 2) {
        await bell.heard()
        continue
      }
      const claimed = await claim(pool, room).catch(noneAfter(onError))
      for (const delivery of claimed) send(delivery)
      if (claimed.length === room) continue
      // That was all. Events that come thick and fast are fetched together.
      await pause(gatherMs, stop.signal)
      await bell.heard()
    }
  }

  const running = run()
  return {
    wake: bell.ring,
    async close() {
      stop.abort()
      await running
      await Promise.race([Promise.all(inFlight), sleep(patienceMs, undefined, { ref: false })])
      fetchJson.close()
      await Promise.all(inFlight)
      await settle.flushed()
    },
  }
}

/** Rings once for any number of rings before it is heard, and by itself when the next look is due. */
function openBell(signal: AbortSignal) {
  let rung = false
  let wake = () => {}
  signal.addEventListener('abort', () => wake())
  return {
    ring() {
      rung = true
      wake()
    },
    async heard(): Promise<void> {
      if (!rung && !signal.aborted) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, lookEveryMs)
          wake = () => {
            clearTimeout(timer)
            resolve()
          }
        })
      }
      rung = false
    },
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => {})
}

function noneAfter(onError: (error: unknown) => void) {
  return (error: unknown): [] => {
    onError(error)
    return []
  }
}

// What a crash of the database forgets here is sent once more under the same id, which a merchant has to bear anyway.
const offTheDurablePath = `set_config('synchronous_commit', 'off', true)`

async function claim(pool: pg.Pool, most: number): Promise<Delivery[]> {
  const { rows } = await pool.query<Delivery>({
    name: 'sandbox-claim-deliveries',
    text: `with due as materialized (
             select id, ${offTheDurablePath} from sandbox.delivery
             where status = 'waiting' and due_at <= clock_timestamp()
             order by due_at, id limit $1
             for update skip locked
           )
           update sandbox.delivery as d
           set due_at = clock_timestamp() + $2 * interval '1 ms', tries = d.tries + 1
           from due where d.id = due.id
           returning d.id, d.event_id, d.type, d.reference, d.refund_reference, d.happened_at, d.tries`,
    values: [most, leaseMs],
  })
  return rows
}

function eventOf(delivery: Delivery): ProviderEvent {
  return {
    id: delivery.event_id,
    type: delivery.type,
    reference: delivery.reference,
    refundReference: delivery.refund_reference,
    happenedAt: delivery.happened_at,
  }
}

const inOwnWords = async (event: ProviderEvent, secret: string) => signedNotification(event, secret)

/** As the sandbox tells it. */
export function signedNotification(event: ProviderEvent, secret: string): Notification {
  const body = JSON.stringify({
    type: event.type,
    timestamp: event.happenedAt.toISOString(),
    data: {
      reference: event.reference,
      ...(event.refundReference !== null && { refund_reference: event.refundReference }),
    },
  })
  return { headers: signed(event.id, body, secret), body }
}

/** Standard Webhooks: HMAC-SHA256 over id, real time and body. */
export function signed(id: string, body: string, secret: string): Record<string, string> {
  const timestamp = String(Math.floor(Date.now() / 1000))
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` }
}

function verdictOn({ id, tries }: Delivery, answer: JsonAnswer): Verdict {
  const status = answer.kind === 'answered' ? answer.status : 0
  if (status >= 200 && status < 300) return { id, status: 'delivered', waitMs: 0 }

  const wait = waitsMs[tries - 1]
  if (status === 410 || wait === undefined) return { id, status: 'given_up', waitMs: 0 }
  const asked = answer.kind === 'answered' ? Number(answer.headers['retry-after'] ?? 0) * second : 0
  const jitter = 0.9 + Math.random() * 0.2
  return { id, status: 'waiting', waitMs: Math.max(wait * jitter, Math.min(asked || 0, hour)) }
}

/** Writes verdicts down together: while one statement runs, the next ones gather. */
function openSettler(pool: pg.Pool, onError: (error: unknown) => void) {
  let waiting: Verdict[] = []
  let writing: Promise<void> | undefined

  const write = async () => {
    while (waiting.length > 0) {
      const batch = waiting
      waiting = []
      await pool.query({
        name: 'sandbox-settle-deliveries',
        // The planner does not see how long the lists are, and keeps its plan; `anyLength` says why.
        text: `update sandbox.delivery as d
               set status = v.status, due_at = clock_timestamp() + v.wait_ms * interval '1 ms'
               from unnest((select $1::text)::bigint[], (select $2::text)::text[], (select $3::text)::float8[])
                      as v (id, status, wait_ms),
                    (select ${offTheDurablePath}) as relaxed
               where d.id = v.id`,
        values: [
          batch.map(({ id }) => id),
          batch.map(({ status }) => status),
          batch.map(({ waitMs }) => waitMs),
        ],
      })
    }
  }
  const settle = (verdict: Verdict) => {
    waiting.push(verdict)
    writing ??= write()
      .catch(onError)
      .finally(() => {
        writing = undefined
      })
  }
  return Object.assign(settle, { flushed: async () => writing })
}
