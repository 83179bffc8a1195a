import type { Random } from '../simulation/random.ts'
import { openDeck } from './deck.ts'
import type { Fleet } from './fleet.ts'
import type { ChaosProvider, PaidPayment, StaffCall } from './provider.ts'

/** What people do at the provider without us: its staff, the cardholders' banks, and customers in their browsers. */
export type Staff = {
  /** One thing happens, if there is anything it could happen to. Tells which. */
  act(): Promise<string | undefined>
  /** Every customer who is awaited confirms. Tells how many did. */
  confirmAll(): Promise<number>
}

const byHand = 'refund by hand'
const disputes = ['dispute opened', 'dispute won', 'dispute lost'] as const
const customers = ['customer confirms', 'customer fails to confirm', 'customer confirms too late'] as const
type Deed = typeof byHand | (typeof disputes)[number] | (typeof customers)[number]

export function deedsAt({ disputes: hasDisputes, asks }: ChaosProvider): Deed[] {
  return [byHand, ...(hasDisputes ? disputes : []), ...(asks === undefined ? [] : customers)]
}

export function openStaff(fleet: Fleet, random: Random): Staff {
  const { provider } = fleet
  const possible = deedsAt(provider)
  const deck = openDeck(random, possible)
  const call = (ask: StaffCall) => askStaff(fleet, ask)

  const confirm = (reference: string, result: 'succeeded' | 'failed') =>
    call({ path: '/__sandbox/authentications', body: { reference, result } })
  const dispute = async (where: string, status: 'open' | 'won' | 'lost') => {
    const payment = await pick(fleet, random, where)
    return payment && call({ path: '/__sandbox/disputes', body: { reference: payment.reference, status } })
  }

  const deeds: Readonly<Record<Deed, () => Promise<number | undefined>>> = {
    async 'refund by hand'() {
      const payment = await pick(fleet, random, `dispute_status is null and ${left} > 0`)
      if (!payment) return undefined
      const amount = random.chance(0.5) ? payment.left : Math.ceil(payment.left / 2)
      return call(provider.refundByHand(payment, amount))
    },
    'dispute opened': () => dispute(`dispute_status is null and ${left} > 0`, 'open'),
    'dispute won': () => dispute(`dispute_status = 'open'`, 'won'),
    'dispute lost': () => dispute(`dispute_status = 'open'`, 'lost'),
    async 'customer confirms'() {
      const [reference] = random.shuffled(await listAwaited(fleet))
      return reference === undefined ? undefined : confirm(reference, 'succeeded')
    },
    async 'customer fails to confirm'() {
      const [reference] = random.shuffled(await listAwaited(fleet))
      return reference === undefined ? undefined : confirm(reference, 'failed')
    },
    async 'customer confirms too late'() {
      const [reference] = random.shuffled(await listEnded(fleet))
      if (reference === undefined) return undefined
      // Whether it took money, the book tells.
      return (await confirm(reference, 'succeeded')) === 0 ? 0 : 200
    },
  }

  return {
    async act() {
      for (let tries = 0; tries < possible.length; tries++) {
        const deed = deck.draw()!
        if ((await deeds[deed]()) === 200) return deed
      }
      return undefined
    },
    async confirmAll() {
      const answers = await Promise.all((await listAwaited(fleet)).map((one) => confirm(one, 'succeeded')))
      return answers.filter((status) => status === 200).length
    },
  }
}

/** What of a payment is still there to be given back. */
const left = `amount - coalesce((select sum(r.amount) from sandbox.refund r
  where r.payment_id = p.id and r.status = 'succeeded'), 0)`

/** One of the newest, because something still happens to it. */
async function pick(
  { database: { observer } }: Fleet,
  random: Random,
  where: string,
): Promise<(PaidPayment & { left: number }) | undefined> {
  const { rows } = await observer.query<PaidPayment & { left: number }>(
    `select id, reference, (${left})::int as left from sandbox.payment p
     where status = 'paid' and ${where} order by created_at desc, id desc limit 40`,
  )
  return rows.length === 0 ? undefined : random.pick(rows)
}

// An intent whose bank wants the customer, as Stripe's simulator keeps it; nothing was taken for it.
const awaited = `from sandbox.wire_object where kind = 'payment_intent' and body->>'failedAs' = 'authentication_required'
  and jsonb_array_length(body->'charges') = 0`

async function listAwaited({ database: { observer } }: Fleet): Promise<string[]> {
  const { rows } = await observer.query<{ reference: string }>(
    `select body->>'reference' as reference ${awaited} and body->>'canceledAt' is null order by id`,
  )
  return rows.map(({ reference }) => reference)
}

async function listEnded({ database: { observer } }: Fleet): Promise<string[]> {
  const { rows } = await observer.query<{ reference: string }>(
    `select body->>'reference' as reference ${awaited} and body->>'canceledAt' is not null
     order by id desc limit 20`,
  )
  return rows.map(({ reference }) => reference)
}

/** The status of what the provider's own people are told, at its own door; 0: it is not there just now. */
export async function askStaff(
  { sandbox, provider }: Fleet,
  { path, body, headers }: StaffCall,
): Promise<number> {
  try {
    const answer = await fetch(`http://127.0.0.1:${sandbox.port()}${path}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${provider.secretKey}`,
        'content-type': 'application/json',
        ...headers,
      },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(5_000),
    })
    await answer.text()
    return answer.status
  } catch {
    return 0
  }
}
