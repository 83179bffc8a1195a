import { createHash } from 'node:crypto'
import type pg from 'pg'
import Type, { type Static } from 'typebox'

const Rate = (description: string) => Type.Optional(Type.Number({ minimum: 0, maximum: 1, description }))

/** How the provider is asked to misbehave. What is left out is well; `{}` is a provider in good health. */
export const Faults = Type.Object(
  {
    down: Type.Optional(
      Type.Union([Type.Boolean(), Type.Literal('reset')], {
        description: 'Every call is answered 503, or its connection is reset',
      }),
    ),
    error_before_rate: Rate('Share of charges and refunds answered 500 before any money moved'),
    error_after_rate: Rate('Share of charges and refunds answered 500 although the money moved'),
    timeout_before_rate: Rate('Share of charges and refunds that are never answered, and no money moved'),
    timeout_after_rate: Rate('Share of charges and refunds that are never answered, and the money moved'),
    refuse_credentials: Type.Optional(
      Type.Boolean({
        description: 'Every call of a merchant is answered 401, as if its key had been revoked',
      }),
    ),
    key_used_otherwise_rate: Rate(
      'Share of charges and refunds refused as if their key had been used with another request',
    ),
    wrong_currency_rate: Rate(
      'Share of charges and refunds whose answer names another currency than the one moved',
    ),
    lookup_wrong_amount_rate: Rate('Share of lookups that name another amount than the one moved'),
    lookup_wrong_currency_rate: Rate('Share of lookups that name another currency than the one moved'),
    wrong_amount_rate: Rate(
      'Share of charges and refunds whose answer names another amount than the one moved',
    ),
    garbage_rate: Rate('Share of charges and refunds whose answer is broken JSON, and the money moved'),
    lookup_error_rate: Rate('Share of lookups and lists answered 500'),
    slow_ms: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 600_000,
        description: 'How long each charge and refund takes before the money moves',
      }),
    ),
    duplicate_references: Type.Optional(
      Type.Boolean({
        description:
          'A reference that is known may be charged or refunded again under a new or forgotten key',
      }),
    ),
    currencies: Type.Optional(
      Type.Array(Type.String({ pattern: '^[A-Z]{3}$' }), {
        maxItems: 200,
        description: 'The only currencies taken',
      }),
    ),
    webhook_duplicate_rate: Rate('Share of notifications sent twice under one id'),
    webhook_drop_rate: Rate('Share of notifications never sent'),
    webhook_reorder_rate: Rate('Share of notifications held back until later ones have overtaken them'),
    webhook_delay_ms: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 3_600_000,
        description: 'How long each notification waits before it is sent',
      }),
    ),
    seed: Type.Optional(Type.Integer({ description: 'The same seed and the same keys misbehave alike' })),
  },
  { title: 'ProviderFaults', additionalProperties: false },
)

export type Faults = Static<typeof Faults>

/** What goes wrong with one charge or refund. */
export type Mishap =
  | 'error_before'
  | 'error_after'
  | 'timeout_before'
  | 'timeout_after'
  | 'wrong_amount'
  | 'wrong_currency'
  | 'key_used_otherwise'
  | 'garbage'

const mishaps: readonly Mishap[] = [
  'error_before',
  'error_after',
  'timeout_before',
  'timeout_after',
  'wrong_amount',
  'wrong_currency',
  'key_used_otherwise',
  'garbage',
]

// Faults set through one process hold in all of them within a second.
const believedForMs = 500
const mostRemembered = 50_000
const overtakenAfterMs = 3_000

export type FaultInjector = ReturnType<typeof openFaultInjector>

/** The faults in force, read from the book, and the dice that decide whom they hit. */
export function openFaultInjector(pool: pg.Pool) {
  let known: Faults = {}
  let readAt = Number.NEGATIVE_INFINITY
  let reading: Promise<void> | undefined
  let tries = new Map<string, number>()
  let orders = 0

  const remember = (faults: Faults) => {
    known = faults
    readAt = performance.now()
  }
  const read = async () => {
    const before = orders
    const { rows } = await pool.query<{ faults: Faults }>({
      name: 'sandbox-faults',
      text: 'select faults from sandbox.faults',
    })
    // An order that came meanwhile is newer than what was read.
    if (orders === before) remember(rows[0]?.faults ?? {})
  }

  /** The same subject rolls anew on each try, so that whoever tries again gets through in the end. */
  const roll = (what: string, subject: string): number => {
    const thrown = `${what} ${subject}`
    if (tries.size >= mostRemembered) tries = new Map()
    const nth = (tries.get(thrown) ?? 0) + 1
    tries.set(thrown, nth)
    const hash = createHash('sha256')
      .update(`${known.seed ?? 0} ${thrown} ${nth}`)
      .digest()
    return hash.readUInt32BE(0) / 2 ** 32
  }
  const strikes = (rate: number | undefined, what: string, subject: string): boolean =>
    rate !== undefined && rate > 0 && roll(what, subject) < rate

  return {
    async inForce(): Promise<Faults> {
      if (performance.now() - readAt > believedForMs) {
        reading ??= read().finally(() => {
          reading = undefined
        })
        await reading
      }
      return known
    },

    async set(faults: Faults): Promise<void> {
      await pool.query('update sandbox.faults set faults = $1', [JSON.stringify(faults)])
      orders++
      tries = new Map()
      remember(faults)
    },

    /** One throw decides among all mishaps, so that each keeps its rate beside the others. */
    mishapOf(faults: Faults, subject: string): Mishap | undefined {
      if (!mishaps.some((mishap) => faults[`${mishap}_rate`])) return undefined
      let left = roll('mishap', subject)
      return mishaps.find((mishap) => {
        left -= faults[`${mishap}_rate`] ?? 0
        return left < 0
      })
    },

    lookupFails(faults: Faults, subject: string): boolean {
      return strikes(faults.lookup_error_rate, 'lookup', subject)
    },

    /** What a lookup names wrongly, if anything. */
    lookupEcho(faults: Faults, subject: string): 'wrong_amount' | 'wrong_currency' | undefined {
      if (strikes(faults.lookup_wrong_amount_rate, 'lookup amount', subject)) return 'wrong_amount'
      return strikes(faults.lookup_wrong_currency_rate, 'lookup currency', subject)
        ? 'wrong_currency'
        : undefined
    },

    /** How many copies of a notification go out, and after what wait. */
    deliveryOf(faults: Faults, subject: string): { copies: number; delayMs: number } {
      const copies = strikes(faults.webhook_drop_rate, 'drop', subject)
        ? 0
        : strikes(faults.webhook_duplicate_rate, 'duplicate', subject)
          ? 2
          : 1
      const overtaken = strikes(faults.webhook_reorder_rate, 'reorder', subject)
      return { copies, delayMs: (faults.webhook_delay_ms ?? 0) + (overtaken ? overtakenAfterMs : 0) }
    },
  }
}
