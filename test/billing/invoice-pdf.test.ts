import { inflateSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openWorld, type World } from '../world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({ now: '2026-03-05T09:00:00+09:00', environment: { TZ_DEFAULT: 'Asia/Seoul' } })
})
afterAll(() => world.close())

async function subscribe(account: string, more: { plan?: string; card?: string; customer?: object } = {}) {
  const { plan = 'starter-monthly', card = 'bk_test_ok', customer } = more
  await world.post('/api/billing/subscribe', {
    account_id: account,
    plan_id: plan,
    payment_method: { billing_key: card },
    ...(customer && { customer }),
  })
  return (await world.get(`/api/billing/invoices?account_id=${account}`)).body.data.invoices[0]
}

async function print(invoiceId: string, token = world.token) {
  const answer = await fetch(`${world.url}/api/billing/invoices/${invoiceId}.pdf`, {
    headers: { authorization: `Bearer ${token}` },
  })
  return { status: answer.status, headers: answer.headers, bytes: Buffer.from(await answer.arrayBuffer()) }
}

/** The characters that the document's fonts map back to text, and how many bytes of outlines they bring. */
function fontsOf(pdf: Buffer): { characters: Set<string>; outlineBytes: number } {
  const characters = new Set<string>()
  let outlineBytes = 0
  for (let at = pdf.indexOf('\nstream\n'); at !== -1; at = pdf.indexOf('\nstream\n', at + 1)) {
    const body = pdf.subarray(at + 8, pdf.indexOf('\nendstream', at))
    let text: Buffer
    try {
      text = inflateSync(body)
    } catch {
      continue
    }
    if (text.includes('begincmap')) {
      for (const [, hex] of text.toString().matchAll(/<([0-9a-f]{4})>/g))
        characters.add(String.fromCodePoint(Number.parseInt(hex!, 16)))
    }
    // A TrueType font begins with this word; `glyf` is the table of its outlines.
    if (text.subarray(0, 4).toString() === 'true' && text.includes('glyf')) outlineBytes += text.length
  }
  return { characters, outlineBytes }
}

const pagesOf = (pdf: Buffer) => pdf.toString('latin1').match(/\/Type \/Page\b/g)?.length

test('a paid invoice prints on one page, with Hangul, Latin and the won sign in a font that has their outlines', async () => {
  const invoice = await subscribe('acct_1', { customer: { name: '홍길동', email: 'hong@example.com' } })
  const { status, headers, bytes } = await print(invoice.invoice_id)
  expect(status).toBe(200)
  expect(headers.get('content-type')).toBe('application/pdf')
  expect(headers.get('content-disposition')).toBe('inline; filename="acct_1-000001.pdf"')
  expect(bytes.subarray(0, 5).toString()).toBe('%PDF-')
  expect(bytes.subarray(-6).toString()).toContain('%%EOF')
  expect(pagesOf(bytes)).toBe(1)
  const { characters, outlineBytes } = fontsOf(bytes)
  for (const character of '홍길동₩9,900hong@example.comacct_1-000001Paid')
    expect(characters, character).toContain(character)
  expect(outlineBytes).toBeGreaterThan(5_000)
})

test('dollars, a refund and a void invoice print as well', async () => {
  const usd = await subscribe('acct_usd', { plan: 'global-monthly' })
  await world.post('/api/billing/refund', { invoice_id: usd.invoice_id, amount: 500 })
  const printed = await print(usd.invoice_id)
  expect(printed.status).toBe(200)
  for (const character of '$19.00$5.00Partially refunded')
    expect(fontsOf(printed.bytes).characters).toContain(character)

  const declined = await subscribe('acct_void', { card: 'bk_test_stolen' })
  expect(declined.status).toBe('void')
  expect((await print(declined.invoice_id)).status).toBe(200)
})

test('a name as long as allowed still prints', async () => {
  const invoice = await subscribe('acct_long', {
    customer: { name: '가나다라마바사아자차카타파하'.repeat(14) },
  })
  const { status, bytes } = await print(invoice.invoice_id)
  expect([status, pagesOf(bytes)]).toEqual([200, 1])
})

test('the document is for its tenant only, and the invoice itself is still found beside it', async () => {
  const invoice = await subscribe('acct_mine')
  const other = await world.makeToken({ account: 'acct_other' })
  const mine = await world.makeToken({ account: 'acct_mine', scopes: ['billing:read'] })
  const batch = await world.makeToken({ scopes: ['batch:read'] })
  expect((await print(invoice.invoice_id, other)).status).toBe(404)
  expect((await print(invoice.invoice_id, mine)).status).toBe(200)
  expect((await print(invoice.invoice_id, batch)).status).toBe(403)
  expect((await print('inv_nonsense')).status).toBe(404)
  expect((await fetch(`${world.url}/api/billing/invoices/${invoice.invoice_id}.pdf`)).status).toBe(401)
  const plain = await world.get(`/api/billing/invoices/${invoice.invoice_id}`)
  expect([plain.status, plain.body.data.invoice_id]).toEqual([200, invoice.invoice_id])
  expect(
    (await world.ask('POST', `/api/billing/invoices/${invoice.invoice_id}.pdf`, { body: {} })).status,
  ).toBe(405)
})

test('the API description names the document by its path', async () => {
  const { body } = await world.get('/openapi.json')
  expect(Object.keys(body.paths)).toContain('/api/billing/invoices/{invoice_id}.pdf')
})
