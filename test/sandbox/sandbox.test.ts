import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { isCurrency } from '../../src/billing/money.ts'
import { currencies } from '../../src/sandbox/currencies.ts'
import { type Faults, openFaultInjector } from '../../src/sandbox/faults.ts'
import { openProviderWorld, type ProviderWorld } from './open-provider.ts'

let world: ProviderWorld
let made = 0

beforeAll(async () => {
  world = await openProviderWorld()
})
afterAll(() => world.close())
beforeEach(() => world.setFaults({}))

const fresh = (prefix: string) => `${prefix}_${++made}`

type ChargeBody = {
  reference: string
  billing_key: string
  account_id: string
  amount: number
  currency: string
}

function charge(more: Partial<ChargeBody> = {}, key?: string) {
  const reference = more.reference ?? fresh('pay')
  const body = {
    reference,
    billing_key: 'bk_test_ok',
    account_id: 'acct_1',
    amount: 9900,
    currency: 'KRW',
    description: 'Pro',
    ...more,
  }
  return world.ask('POST', '/v1/charges', { body, key: key ?? reference })
}

describe('test cards', () => {
  test.each([
    ['bk_test_insufficient_funds', 'insufficient_funds'],
    ['bk_test_stolen', 'lost_or_stolen'],
    ['bk_test_expired', 'expired_card'],
  ])('%s is declined as %s', async (billingKey, code) => {
    expect(await charge({ billing_key: billingKey })).toMatchObject({
      status: 402,
      body: { status: 'declined', decline_code: code },
    })
  })

  test("bk_test_fails_on_renewal pays for an account's first charge only", async () => {
    const card = { billing_key: 'bk_test_fails_on_renewal', account_id: fresh('acct') }
    expect((await charge(card)).status).toBe(200)
    expect(await charge(card)).toMatchObject({ status: 402, body: { decline_code: 'insufficient_funds' } })
    expect((await charge({ ...card, account_id: fresh('acct') })).status).toBe(200)
  })

  test('of many first charges of one account at once, one is paid', async () => {
    for (let round = 0; round < 20; round++) {
      const card = { billing_key: 'bk_test_fails_on_renewal', account_id: fresh('acct') }
      const answers = await Promise.all(Array.from({ length: 12 }, () => charge(card)))
      expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    }
  })

  test('bk_test_slow pays after two seconds, and a repeat meanwhile learns that it still runs', async () => {
    const reference = fresh('pay')
    const begun = performance.now()
    const first = charge({ reference, billing_key: 'bk_test_slow' })
    await expect
      .poll(
        async () =>
          (await world.pool.query('select from sandbox.idempotency_key where key = $1', [reference]))
            .rowCount,
      )
      .toBe(1)
    expect(await charge({ reference, billing_key: 'bk_test_slow' })).toMatchObject({
      status: 409,
      body: { error: { code: 'idempotency_key_in_use' } },
    })
    expect((await first).status).toBe(200)
    expect(performance.now() - begun).toBeGreaterThan(1_900)
  })

  test('bk_test_timeout_after_charge takes the money and stays silent until the client goes', async () => {
    const reference = fresh('pay')
    const leave = new AbortController()
    const call = fetch(`${world.sandbox.url}/v1/charges`, {
      method: 'POST',
      headers: {
        authorization: 'Bearer x',
        'idempotency-key': reference,
        'content-type': 'application/json',
      },
      body: JSON.stringify({
        reference,
        billing_key: 'bk_test_timeout_after_charge',
        account_id: 'acct_1',
        amount: 500,
        currency: 'KRW',
      }),
      signal: leave.signal,
    })
    const silence = expect(call).rejects.toThrow()
    await expect.poll(async () => (await world.taken(reference)).amount).toBe(500n)
    leave.abort()
    await silence
  })

  test.each([
    'ok',
    'insufficient_funds',
    'stolen',
    'expired',
    'fails_on_renewal',
    'timeout_after_charge',
    'error_before_charge',
    'slow',
    'refund_fails',
    'refund_timeout',
  ])('ak_test_%s is exchanged for a card that can be shown', async (name) => {
    const exchanged = await world.ask('POST', '/v1/billing-keys/exchange', {
      body: { auth_key: `ak_test_${name}`, customer_key: 'cus_1' },
    })
    expect(exchanged.body).toEqual({
      billing_key: `bk_test_${name}`,
      card: {
        brand: expect.stringMatching(/^[a-z]+$/),
        last4: expect.stringMatching(/^\d{4}$/),
        expires: expect.stringMatching(/^\d\d\/\d\d$/),
      },
    })
    expect((await world.ask('GET', `/v1/billing-keys/bk_test_${name}`)).body).toEqual(exchanged.body)
  })
})

describe('keys', () => {
  test('a repeat gets the first answer again and is marked as such, quoted or bare', async () => {
    const reference = fresh('pay')
    const first = await charge({ reference }, reference)
    const again = await charge({ reference }, `"${reference}"`)
    expect(again.text).toBe(first.text)
    expect(first.headers.get('idempotent-replayed')).toBeNull()
    expect(again.headers.get('idempotent-replayed')).toBe('true')
  })

  test('the first answer is replayed even after the payment changed', async () => {
    const reference = fresh('pay')
    const first = await charge({ reference })
    await world.ask('POST', `/v1/charges/${reference}/refunds`, {
      body: { reference: fresh('ref'), amount: 900 },
      key: fresh('key'),
    })
    expect((await charge({ reference })).text).toBe(first.text)
  })

  test.each([{ amount: 9901 }, { currency: 'USD' }, { account_id: 'acct_2' }])(
    'a key used with %o instead is refused',
    async (other) => {
      const reference = fresh('pay')
      await charge({ reference })
      expect(await charge({ reference, ...other })).toMatchObject({
        status: 422,
        body: { error: { code: 'idempotency_key_reused' } },
      })
    },
  )

  test('a charge key is no refund key', async () => {
    const reference = fresh('pay')
    await charge({ reference })
    const refund = { body: { reference: fresh('ref'), amount: 900 }, key: reference }
    expect((await world.ask('POST', `/v1/charges/${reference}/refunds`, refund)).status).toBe(422)
  })

  test('a key is forgotten after its window, and the reference is then refused as known', async () => {
    const reference = fresh('pay')
    await charge({ reference })
    await world.clock.moveTo(new Date(world.clock().getTime() + 86_400_000 - 5_000))
    expect((await charge({ reference })).status).toBe(200)
    await world.clock.moveTo(new Date(world.clock().getTime() + 6_000))
    expect(await charge({ reference })).toMatchObject({
      status: 409,
      body: { error: { code: 'duplicate_reference' } },
    })
  })

  test('a claim left behind by a server that died is taken over', async () => {
    const reference = fresh('pay')
    await world.setFaults({ slow_ms: 60_000 })
    const another = await world.openAnother()
    const dying = fetch(`${another.url}/v1/charges`, {
      method: 'POST',
      headers: {
        authorization: 'Bearer x',
        'idempotency-key': reference,
        'content-type': 'application/json',
      },
      body: JSON.stringify({
        reference,
        billing_key: 'bk_test_ok',
        account_id: 'acct_1',
        amount: 9900,
        currency: 'KRW',
        description: 'Pro',
      }),
    }).catch(() => {})
    await expect
      .poll(
        async () =>
          (await world.pool.query('select from sandbox.idempotency_key where key = $1', [reference]))
            .rowCount,
      )
      .toBe(1)
    await another.close()
    await dying
    await world.setFaults({})
    expect((await charge({ reference })).status).toBe(409)
    await world.pool.query('update sandbox.idempotency_key set running_until = now() where key = $1', [
      reference,
    ])
    expect((await charge({ reference })).status).toBe(200)
    expect((await world.taken(reference)).times).toBe(1)
  })

  test('money moves only under a key, and only for someone with a secret', async () => {
    const body = { reference: 'r', billing_key: 'bk_test_ok', account_id: 'a', amount: 1, currency: 'KRW' }
    expect((await world.ask('POST', '/v1/charges', { body })).body.error.code).toBe(
      'idempotency_key_required',
    )
    expect((await world.ask('POST', '/v1/charges', { body, key: 'k', secret: null })).status).toBe(401)
    expect((await world.ask('GET', '/admin/payments', { secret: null })).status).toBe(401)
  })
})

describe('several servers on one book', () => {
  test('equal charges through two servers at once take the money once', async () => {
    const another = await world.openAnother()
    for (let n = 0; n < 20; n++) {
      const reference = fresh('pay')
      const body = {
        reference,
        billing_key: 'bk_test_ok',
        account_id: 'acct_1',
        amount: 100,
        currency: 'KRW',
      }
      const answers = await Promise.all(
        [world.sandbox.url, another.url, world.sandbox.url, another.url].map((url) =>
          fetch(`${url}/v1/charges`, {
            method: 'POST',
            headers: {
              authorization: 'Bearer x',
              'idempotency-key': reference,
              'content-type': 'application/json',
            },
            body: JSON.stringify(body),
          }).then((answer) => answer.text()),
        ),
      )
      expect(new Set(answers).size).toBe(1)
      expect((await world.taken(reference)).times).toBe(1)
    }
  })

  test('a wave of charges through two servers, in any order of their keys: each gets its own answer, once', async () => {
    const another = await world.openAnother()
    for (let round = 0; round < 5; round++) {
      const wave = Array.from({ length: 40 }, (_, at) => ({
        reference: fresh('wave'),
        amount: 1000 + at,
        billing_key: at % 4 === 3 ? 'bk_test_stolen' : 'bk_test_ok',
      }))
      const send = async (url: string, one: (typeof wave)[number]) => {
        const answer = await fetch(`${url}/v1/charges`, {
          method: 'POST',
          headers: {
            authorization: 'Bearer x',
            'idempotency-key': one.reference,
            'content-type': 'application/json',
          },
          body: JSON.stringify({ account_id: 'acct_wave', currency: 'KRW', ...one }),
        })
        return { status: answer.status, text: await answer.text() }
      }
      const [here, there] = await Promise.all([
        Promise.all(wave.map((one) => send(world.sandbox.url, one))),
        Promise.all(wave.toReversed().map((one) => send(another.url, one))),
      ])
      for (const [at, one] of wave.entries()) {
        expect(here[at]).toEqual(there[wave.length - 1 - at])
        expect(here[at]!.status).toBe(at % 4 === 3 ? 402 : 200)
        expect(JSON.parse(here[at]!.text)).toMatchObject({ reference: one.reference, amount: one.amount })
        expect((await world.taken(one.reference)).times).toBe(at % 4 === 3 ? 0 : 1)
      }
    }
  })

  test('faults set through one hold in the other within a second', { retry: 3 }, async () => {
    const another = await world.openAnother()
    const lookup = () =>
      fetch(`${another.url}/v1/billing-keys/bk_test_ok`, { headers: { authorization: 'Bearer x' } }).then(
        ({ status }) => status,
      )
    expect(await lookup()).toBe(200)
    await world.setFaults({ down: true })
    await expect.poll(lookup, { timeout: 1_000 }).toBe(503)
    await world.setFaults({})
    await expect.poll(lookup, { timeout: 1_000 }).toBe(200)
  })

  test('a clock moved by another process is believed at once', async () => {
    const later = new Date(world.clock().getTime() + 40 * 86_400_000)
    await world.pool.query('update platform.clock set offset_ms = $1', [later.getTime() - Date.now()])
    const { body } = await charge()
    expect(new Date(body.created_at).getTime()).toBeGreaterThanOrEqual(later.getTime() - 1)
  })
})

describe('faults', () => {
  const outcomes = async (faults: Faults, count: number): Promise<number[]> => {
    await world.setFaults(faults)
    const statuses: number[] = []
    for (let n = 0; n < count; n++)
      statuses.push((await charge({ reference: `seeded_${faults.seed}_${n}` })).status)
    return statuses
  }

  test('what was read while they were being set does not undo them', async () => {
    let letGo = () => {}
    const held = new Promise<void>((resolve) => {
      letGo = resolve
    })
    // The answer to a read takes its time; everything else is quick.
    const slowReads = Object.create(world.pool, {
      query: {
        value: async (asked: string | { name: string }, values?: unknown[]) => {
          const answer = await world.pool.query(asked as string, values)
          if (typeof asked !== 'string') await held
          return answer
        },
      },
    })
    const context = openFaultInjector(slowReads)
    const reading = context.inForce()
    await world.pool.query('select 1')
    await context.set({ down: true })
    letGo()
    await reading
    expect(await context.inForce()).toEqual({ down: true })
  })

  test('a rate hits about its share, alike for the same seed and otherwise for another', async () => {
    const faults = { error_before_rate: 0.3, error_after_rate: 0.2, seed: 7 }
    const first = await outcomes(faults, 200)
    const failed = first.filter((status) => status === 500).length
    expect(failed).toBeGreaterThan(70)
    expect(failed).toBeLessThan(130)
    expect(await outcomes(faults, 200)).toEqual(first)
    expect(await outcomes({ ...faults, seed: 8 }, 200)).not.toEqual(first)
  })

  test('whoever tries again gets through in the end', async () => {
    await world.setFaults({ error_before_rate: 0.8 })
    const reference = fresh('pay')
    await expect.poll(async () => (await charge({ reference })).status, { interval: 1 }).toBe(200)
  })

  test('an unknown fault or an impossible rate is refused', async () => {
    expect((await world.ask('POST', '/admin/faults', { body: { meteor: 1 } })).status).toBe(400)
    expect((await world.ask('POST', '/admin/faults', { body: { garbage_rate: 2 } })).status).toBe(400)
    expect((await world.ask('GET', '/admin/faults')).body).toEqual({})
  })
})

describe('the book', () => {
  test('is shown newest first, page by page, declines included', async () => {
    const references: string[] = []
    for (let n = 0; n < 7; n++) {
      const billingKey = n % 2 ? 'bk_test_stolen' : 'bk_test_ok'
      references.push((await charge({ billing_key: billingKey })).body.reference)
    }
    const first = (await world.ask('GET', '/admin/payments?limit=4')).body
    const second = (await world.ask('GET', `/admin/payments?limit=3&cursor=${first.next_cursor}`)).body
    const seen = [...first.payments, ...second.payments].map(
      ({ reference }: { reference: string }) => reference,
    )
    expect(seen).toEqual(references.reverse())
    expect(first.payments[1]).toMatchObject({ status: 'declined', amount_refunded: 0 })
  })

  test('refunds that expect nothing of the remainder still never give back more than was taken', async () => {
    const { body } = await charge()
    const answers = await Promise.all(
      Array.from({ length: 12 }, () => {
        const reference = fresh('ref')
        const refund = { body: { reference, amount: 3_000 }, key: reference }
        return world.ask('POST', `/v1/charges/${body.reference}/refunds`, refund)
      }),
    )
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(3)
    expect(answers.filter(({ status }) => status === 422)).toHaveLength(9)
    expect((await world.taken(body.reference)).refunded).toBe(9_000n)
  })

  test('amounts up to the largest exact integer are kept exactly', async () => {
    const amount = Number.MAX_SAFE_INTEGER
    const { body } = await charge({ amount, currency: 'USD' })
    expect((await world.taken(body.reference)).amount).toBe(BigInt(amount))
    expect((await charge({ amount: amount + 1 })).status).toBe(400)
  })

  test('the currencies it takes are those billing can hold', () => {
    const letters = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZ']
    const codes = letters.flatMap((a) => letters.flatMap((b) => letters.map((c) => a + b + c)))
    expect(codes.filter((code) => currencies.has(code))).toEqual(codes.filter(isCurrency))
  })

  test('a currency that nobody pays with is refused', async () => {
    expect(await charge({ currency: 'XXX' })).toMatchObject({
      status: 422,
      body: { error: { code: 'currency_not_supported' } },
    })
  })

  test('keys past their window are swept, younger ones stay', async () => {
    const { openBook } = await import('../../src/sandbox/book.ts')
    const reference = fresh('pay')
    await charge({ reference })
    const kept = async () =>
      (await world.pool.query('select from sandbox.idempotency_key where key = $1', [reference])).rowCount
    await openBook(world.pool).forgetKeys(new Date(world.clock().getTime() - 1_000))
    expect(await kept()).toBe(1)
    await openBook(world.pool).forgetKeys(new Date(world.clock().getTime() + 1_000))
    expect(await kept()).toBe(0)
  })
})

test('a server that closes ends the connections it holds', async () => {
  const another = await world.openAnother()
  const reference = fresh('pay')
  const held = fetch(`${another.url}/v1/charges`, {
    method: 'POST',
    headers: { authorization: 'Bearer x', 'idempotency-key': reference, 'content-type': 'application/json' },
    body: JSON.stringify({
      reference,
      billing_key: 'bk_test_timeout_after_charge',
      account_id: 'a',
      amount: 5,
      currency: 'KRW',
    }),
  })
  const ended = expect(held).rejects.toThrow()
  await expect.poll(async () => (await world.taken(reference)).times).toBe(1)
  await another.close()
  await ended
})
