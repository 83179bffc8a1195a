import { rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inflateSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openInvoicePrinter } from '../../src/billing/invoices/invoice-printer.ts'
import { findInvoice } from '../../src/billing/invoices/invoice-rows.ts'
import { openWorld, type World } from '../world.ts'

const onePixel = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
)

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

test('the sender is the business that sells, as it was when the invoice was issued, in the language of the account', async () => {
  const logo = join(tmpdir(), `rankledger-logo-${process.pid}.png`)
  writeFileSync(logo, onePixel)
  const seller = {
    SELLER_NAME: '주식회사 예시',
    SELLER_ADDRESS: '서울특별시 중구 세종대로 110\\n12층',
    SELLER_REGISTRATION: '123-45-67890',
    SELLER_TAX_ID: 'KR1234567890',
    SELLER_LOGO: logo,
  }
  const shop = await openWorld({ environment: seller })
  try {
    await shop.post('/api/billing/subscribe', {
      account_id: 'acct_ko',
      plan_id: 'starter-monthly',
      payment_method: { billing_key: 'bk_test_ok' },
    })
    const [invoice] = (await shop.get('/api/billing/invoices?account_id=acct_ko')).body.data.invoices
    expect(invoice.seller).toEqual({
      name: '주식회사 예시',
      address: '서울특별시 중구 세종대로 110\n12층',
      registration: '123-45-67890',
      tax_id: 'KR1234567890',
    })
    const draw = async () => {
      const answer = await fetch(`${shop.url}/api/billing/invoices/${invoice.invoice_id}.pdf`, {
        headers: { authorization: `Bearer ${shop.token}` },
      })
      return Buffer.from(await answer.arrayBuffer())
    }
    const english = await draw()
    expect(english.toString('latin1')).toContain('/Subtype /Image')
    for (const character of '주식회사예시세종대로층123-45-67890KRInvoice')
      expect(fontsOf(english).characters).toContain(character)
    expect(fontsOf(english).characters).not.toContain('청')
    // The same state is drawn once.
    expect((await draw()).equals(english)).toBe(true)

    const put = await shop.ask('PUT', '/api/billing/accounts/acct_ko', { body: { language: 'ko' } })
    expect(put.body.data.language).toBe('ko')
    const korean = await draw()
    for (const character of '청구서번호공급자결제완료합계')
      expect(fontsOf(korean).characters).toContain(character)
    expect(korean.toString('latin1')).toContain('/Lang (ko)')
    const bad = await shop.ask('PUT', '/api/billing/accounts/acct_ko', { body: { language: 'fr' } })
    expect(bad.status).toBe(400)
    await expect(
      shop.query(`update billing.invoice set seller = '{"name": "another"}' where id = $1`, [
        invoice.invoice_id,
      ]),
    ).rejects.toThrow(/changes only in status and totals/)
  } finally {
    await shop.close()
    rmSync(logo)
  }
})

test('many invoices are printed without holding up anybody else', async () => {
  const invoices: string[] = []
  for (let at = 0; at < 6; at++) invoices.push((await subscribe(`acct_many_${at}`)).invoice_id)
  await print(invoices[0]!)
  const before = performance.eventLoopUtilization()
  const printed = await Promise.all(invoices.slice(1).map((id) => print(id)))
  const { utilization } = performance.eventLoopUtilization(before)
  expect(printed.map(({ status }) => status)).toEqual(Array(5).fill(200))
  // Drawn here, they would keep this thread busy all the time.
  expect(utilization).toBeLessThan(0.5)
})

test('callers take turns at the printer, and beyond its queue they are asked to come again', async () => {
  const printer = openInvoicePrinter()
  const invoice = await findInvoice(world.app.billing.db, (await subscribe('acct_queue')).invoice_id)
  const order = (name: string) => ({
    invoice: invoice!,
    contact: { name },
    logo: null,
    language: 'en' as const,
  })
  const done: string[] = []
  const note = (name: string) => () => void done.push(name)
  const busy = Array.from({ length: 10 }, (_, at) =>
    printer.print('busy', order(`busy ${at}`)).then(note('busy')),
  )
  const quiet = printer.print('quiet', order('quiet')).then(note('quiet'))
  await Promise.all([...busy, quiet])
  expect(done.indexOf('quiet')).toBeLessThan(3)

  const flood = Array.from({ length: 300 }, (_, at) => printer.print('busy', order(`flood ${at}`)))
  const refused = (await Promise.allSettled(flood.slice(257))).filter(({ status }) => status === 'rejected')
  expect(refused.length).toBe(43)
  expect((refused[0] as PromiseRejectedResult).reason).toMatchObject({ code: 'rate_limited' })
  for (const one of flood) one.catch(() => {})
  await printer.close()
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
