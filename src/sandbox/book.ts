import type pg from 'pg'
import { shareStatements } from '../platform/database/share-statements.ts'
import { newId } from '../platform/id.ts'
import { refundRefusingKeys } from './cards.ts'

/** A request as its Idempotency-Key sees it. */
export type Keyed = {
  readonly key: string
  readonly fingerprint: Buffer
  /** Names this very request, so that it recognises its own claim. */
  readonly claimant: string
  readonly now: Date
  readonly keyWindowMs: number
}

export type Notice = { readonly copies: number; readonly delayMs: number }

export type ChargeEntry = {
  /** What the payment is called here; a new id unless given. */
  readonly id?: string
  readonly reference: string
  readonly accountId: string
  readonly billingKey: string
  readonly amount: bigint
  readonly currency: string
  readonly description: string
  readonly declinedAs: string | null
  readonly firstChargeOnly: boolean
}

/** An object of a provider's own that is stored in the same statement, and thereby with its charge or not at all. */
export type BesideCharge = {
  readonly wire: string
  readonly kind: string
  readonly id: string
  readonly body: object
}

export type RefundEntry = {
  /** What the refund is called here; a new id unless given. */
  readonly id?: string
  readonly payment: string
  readonly reference: string
  readonly amount: bigint
  readonly expectedRemaining: bigint | null
}

/** `act` and `replay` carry an answer; every other outcome is a reason why nothing was done. */
export type Entered = {
  readonly outcome: string
  readonly status: number
  readonly answer: string
  /** The billing key of the payment that was refunded. */
  readonly card: string | null
}

type EnteredRow = { outcome: string; http_status: number | null; answer: string | null; card: string | null }

export type Book = ReturnType<typeof openBook>

const shared = { together: 50, atOnce: 1 }

/** What becomes of disputed money that the bank has while it decides. */
const moneyMoves = { open: 'payment.funds_withdrawn', won: 'payment.funds_reinstated', lost: null } as const

/**
 * The provider's book of money. Each entry is in one transaction; charges that come at once share theirs.
 * `withdrawsDisputed`: the bank has what is disputed while it decides.
 */
export function openBook(pool: pg.Pool, { withdrawsDisputed = false } = {}) {
  const chargeTogether = shareStatements(shared, (charges: readonly NewCharge[]) =>
    insertCharges(pool, charges),
  )

  const findShared = shareStatements(shared, (names: readonly string[]) => findPayments(pool, names))

  const enter = async (name: string, text: string, values: unknown[]): Promise<Entered> => {
    const { rows } = await pool.query<EnteredRow>({ name, text, values })
    return toEntered(rows[0]!)
  }

  return {
    /** Marks a key as running before slow work. The entry that follows recognises the claim by its claimant. */
    async claim(keyed: Keyed, runForMs: number): Promise<Entered> {
      return enter(
        'sandbox-claim',
        `select outcome, first_status as http_status, first_answer as answer, null as card
         from sandbox.claim_key($1, $2, $3, $6 * interval '1 ms', $4, $5 * interval '1 ms')`,
        [...keyedValues(keyed), runForMs],
      )
    },

    charge(
      keyed: Keyed,
      entry: ChargeEntry,
      mayRepeat: boolean,
      notice: Notice,
      beside?: BesideCharge,
    ): Promise<Entered> {
      return chargeTogether({ keyed, entry, mayRepeat, notice, beside })
    },

    refund(keyed: Keyed, entry: RefundEntry, mayRepeat: boolean, notice: Notice): Promise<Entered> {
      return enter(
        'sandbox-refund',
        `select outcome, http_status, answer, card from sandbox.refund(
           $1, $2, $3, $4, $5 * interval '1 ms', $6, $7, $8, $9, $10, $11, $12, $13, $14, $15 * interval '1 ms')`,
        [
          ...keyedValues(keyed),
          entry.id ?? newId('re_', keyed.now),
          entry.payment,
          entry.reference,
          entry.amount,
          entry.expectedRemaining,
          refundRefusingKeys,
          mayRepeat,
          newId('whk_'),
          notice.copies,
          notice.delayMs,
        ],
      )
    },

    /** The payment as JSON text, the billing key it was asked of, and what it was for. */
    find: findShared,

    /** Several payments at once by our ids, each as JSON. */
    async findAll<T>(ids: readonly string[]): Promise<T[]> {
      const { rows } = await pool.query<{ payment: T }>({
        name: 'sandbox-find-all',
        text: 'select sandbox.render_payment(p) as payment from sandbox.payment as p where p.id = any($1)',
        values: [ids],
      })
      return rows.map(({ payment }) => payment)
    },

    /** By the time each was asked for, or by the time at which something last happened to it. */
    async listOldestFirst(
      by: 'created' | 'changed',
      from: Date,
      to: Date,
      after: readonly string[] | undefined,
      limit: number,
    ): Promise<ListedWhole[]> {
      const { rows } = await pool.query<ListedWhole>({
        name: `sandbox-list-${by}`,
        text: `select sandbox.render_payment(p) as payment, p.${by}_at::text as at, p.id,
                 p.billing_key as "billingKey", p.description
               from sandbox.payment as p
               where p.${by}_at >= $1 and p.${by}_at < $2
                 and ($3::timestamptz is null or (p.${by}_at, p.id) > ($3, $4))
               order by p.${by}_at, p.id limit $5`,
        values: [from, to, after?.[0], after?.[1] ?? '', limit],
      })
      return rows
    },

    /** Every movement of money by its own time: what was taken, and what was given back. `after` is one's id. */
    async listMovements(from: Date, to: Date, after: string | undefined, limit: number): Promise<Movement[]> {
      const { rows } = await pool.query<Movement>({
        name: 'sandbox-list-movements',
        text: `with movement as (
                 select id, id as payment_id, reference, account_id, 'taken' as kind, amount, amount as whole, currency, created_at
                 from sandbox.payment where status = 'paid' and created_at >= $1 and created_at < $2
                 union all
                 select r.id, p.id, p.reference, p.account_id, 'given_back', r.amount, p.amount, p.currency, r.created_at
                 from sandbox.refund as r join sandbox.payment as p on p.id = r.payment_id
                 where r.status = 'succeeded' and r.created_at >= $1 and r.created_at < $2)
               select id, payment_id as "paymentId", reference, account_id as "accountId", kind, amount::text, whole::text,
                 currency, created_at as at
               from movement as m
               where $3::text is null or (m.created_at, m.id) > (
                 select a.created_at, a.id from (
                   select created_at, id from sandbox.payment where id = $3
                   union all select created_at, id from sandbox.refund where id = $3) as a)
               order by m.created_at, m.id limit $4`,
        values: [from, to, after ?? null, limit],
      })
      return rows
    },

    async listNewestFirst(before: readonly string[] | undefined, limit: number): Promise<ListedPayment[]> {
      const { rows } = await pool.query<ListedPayment>({
        name: 'sandbox-list-newest',
        text: `select sandbox.render_payment(p) as payment, p.created_at::text as at, p.id
               from sandbox.payment as p
               where $1::timestamptz is null or (p.created_at, p.id) < ($1, $2)
               order by p.created_at desc, p.id desc limit $3`,
        values: [before?.[0], before?.[1] ?? '', limit],
      })
      return rows
    },

    /** Where the bank has the money while it decides, each move of it is told of beside what it decided. */
    async dispute(
      payment: string,
      status: 'open' | 'won' | 'lost',
      amount: number | undefined,
      now: Date,
    ): Promise<unknown> {
      const { rows } = await pool.query(
        `with disputed as materialized (select sandbox.dispute($1, $2, $3, $4, $5) as payment)
         select payment, case when payment is not null and $7::text is not null then
           sandbox.notify($6, $7, payment ->> 'reference', null, $4, 1, interval '0') end
         from disputed`,
        [
          payment,
          status,
          amount ?? null,
          now,
          newId('whk_'),
          newId('whk_'),
          withdrawsDisputed ? moneyMoves[status] : null,
        ],
      )
      return rows[0]?.payment
    },

    async failRefund(reference: string, now: Date): Promise<unknown> {
      const { rows } = await pool.query('select sandbox.fail_refund($1, $2, $3) as payment', [
        reference,
        now,
        newId('whk_'),
      ])
      return rows[0]?.payment
    },

    /** Forgets keys that are past their window, so that the table stays as small as the window. */
    async forgetKeys(before: Date): Promise<void> {
      await pool.query('delete from sandbox.idempotency_key where created_at < $1', [before])
    },
  }
}

type NewCharge = {
  readonly keyed: Keyed
  readonly entry: ChargeEntry
  readonly mayRepeat: boolean
  readonly notice: Notice
  readonly beside: BesideCharge | undefined
}

/** In the order of their keys, so that two processes with the same ones wait for each other and do not lock each other out. */
async function insertCharges(pool: pg.Pool, charges: readonly NewCharge[]): Promise<Entered[]> {
  const ordered = [...charges].sort(({ keyed: a }, { keyed: b }) =>
    a.key < b.key ? -1 : a.key > b.key ? 1 : 0,
  )
  const of = (pick: (charge: NewCharge) => unknown) => ordered.map(pick)
  const hasBeside = ordered.some(({ beside }) => beside)
  const beside = `beside as (
      insert into sandbox.wire_object (wire, kind, id, body, created_at)
      select wire, kind, id, body, now
      from unnest($4::timestamptz[], $19::text[], $20::text[], $21::text[], $22::jsonb[]) as b (now, wire, kind, id, body)
      where wire is not null
      on conflict (wire, kind, id) do update set body = excluded.body)`
  const { rows } = await pool.query<EnteredRow>({
    name: hasBeside ? 'sandbox-charge-beside' : 'sandbox-charge',
    text: `${hasBeside ? `with ${beside}` : ''}
      select c.outcome, c.http_status, c.answer, null as card
      from unnest($1::text[], $2::bytea[], $3::text[], $4::timestamptz[], $5::float8[], $6::text[], $7::text[], $8::text[],
        $9::text[], $10::bigint[], $11::text[], $12::text[], $13::text[], $14::boolean[], $15::boolean[], $16::text[],
        $17::int[], $18::float8[]) with ordinality as g (key, print, claimant, now, key_window, id, reference, account, card,
        amount, currency, description, declined_as, first_charge_only, may_repeat, event_id, copies, delay, at)
      cross join lateral sandbox.charge(g.key, g.print, g.claimant, g.now, g.key_window * interval '1 ms', g.id, g.reference,
        g.account, g.card, g.amount, g.currency, g.description, g.declined_as, g.first_charge_only, g.may_repeat, g.event_id,
        g.copies, g.delay * interval '1 ms') as c
      order by g.at`,
    values: [
      of(({ keyed }) => keyed.key),
      of(({ keyed }) => keyed.fingerprint),
      of(({ keyed }) => keyed.claimant),
      of(({ keyed }) => keyed.now),
      of(({ keyed }) => keyed.keyWindowMs),
      of(({ entry, keyed }) => entry.id ?? newId('ch_', keyed.now)),
      of(({ entry }) => entry.reference),
      of(({ entry }) => entry.accountId),
      of(({ entry }) => entry.billingKey),
      of(({ entry }) => entry.amount),
      of(({ entry }) => entry.currency),
      of(({ entry }) => entry.description),
      of(({ entry }) => entry.declinedAs),
      of(({ entry }) => entry.firstChargeOnly),
      of(({ mayRepeat }) => mayRepeat),
      of(() => newId('whk_')),
      of(({ notice }) => notice.copies),
      of(({ notice }) => notice.delayMs),
      ...(hasBeside
        ? [
            of(({ beside }) => beside?.wire),
            of(({ beside }) => beside?.kind),
            of(({ beside }) => beside?.id),
            of(({ beside }) => beside && JSON.stringify(beside.body)),
          ]
        : []),
    ],
  })
  const entered = new Map(ordered.map((charge, at) => [charge, toEntered(rows[at]!)]))
  return charges.map((charge) => entered.get(charge)!)
}

async function findPayments(pool: pg.Pool, names: readonly string[]): Promise<(FoundPayment | undefined)[]> {
  const { rows } = await pool.query<{ [name in keyof FoundPayment]: FoundPayment[name] | null }>({
    name: 'sandbox-find',
    text: `select case when p.id is not null then sandbox.render_payment(p)::text end as payment,
             p.billing_key as "billingKey", p.description
           from unnest($1::text[]) with ordinality as n (name, at)
           left join lateral sandbox.find_payment(n.name) as p on true
           order by n.at`,
    values: [names],
  })
  return rows.map((row) => (row.payment === null ? undefined : (row as FoundPayment)))
}

function toEntered({ outcome, http_status, answer, card }: EnteredRow): Entered {
  return { outcome, status: http_status ?? 0, answer: answer ?? '', card }
}

export type ListedPayment = { readonly payment: unknown; readonly at: string; readonly id: string }

export type FoundPayment = {
  readonly payment: string
  readonly billingKey: string
  readonly description: string
}

export type ListedWhole = ListedPayment & Pick<FoundPayment, 'billingKey' | 'description'>

export type Movement = {
  readonly id: string
  readonly paymentId: string
  readonly reference: string
  readonly accountId: string
  readonly kind: 'taken' | 'given_back'
  readonly amount: string
  /** What the payment took as a whole. */
  readonly whole: string
  readonly currency: string
  readonly at: Date
}

function keyedValues({ key, fingerprint, claimant, now, keyWindowMs }: Keyed): unknown[] {
  return [key, fingerprint, claimant, now, keyWindowMs]
}
