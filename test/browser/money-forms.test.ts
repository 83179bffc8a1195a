import type { Page, Response } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { World } from '../world.ts'
import { whyNoBrowser } from './open-browser.ts'
import { type OpenedConsole, openConsole } from './open-console.ts'

/** Forms that move money, when they are sent more than once. */
let opened: OpenedConsole
let world: World
let page: Page

beforeAll(async () => {
  if (whyNoBrowser !== null) return console.warn(`The console is not tried. ${whyNoBrowser}`)
  opened = await openConsole()
  world = opened.world
  page = opened.page
  await opened.signIn(world.token)
})
beforeEach(({ skip }) => skip(whyNoBrowser !== null, whyNoBrowser ?? ''))
afterAll(() => opened?.close())

const button: OpenedConsole['button'] = (...named) => opened.button(...named)
const dialog = () => opened.dialog()

async function choose(card: string): Promise<void> {
  await dialog().getByLabel('Test card').first().click()
  await page.getByRole('option', { name: card, exact: true }).click()
}

/** Presses the button of the form that is open, and tells what the API said. */
async function send(name: string | RegExp, path: string): Promise<[status: number, code?: string]> {
  const isAnswer = (answer: Response) => new URL(answer.url()).pathname === path
  const [answer] = await Promise.all([page.waitForResponse(isAnswer), button(name, dialog()).click()])
  // The form takes no second press while the first one is under way.
  await expect.poll(() => page.locator('[role=dialog] button[data-loading]').count()).toBe(0)
  const { error } = (await answer.json()) as { error?: { code: string } }
  return error ? [answer.status(), error.code] : [answer.status()]
}

async function subscribed(account: string, card: string): Promise<string> {
  const made = await world.post('/api/billing/subscribe', {
    account_id: account,
    plan_id: 'pro-monthly',
    payment_method: { billing_key: card },
  })
  return made.body.data.subscription_id
}

async function invoiceOf(account: string) {
  const [invoice] = (await world.get(`/api/billing/invoices?account_id=${account}&limit=1`)).body.data
    .invoices
  return invoice
}

async function openInvoice(account: string): Promise<void> {
  await opened.open(`/invoices/${(await invoiceOf(account)).invoice_id}`)
  await button('Refund').click()
}

/** Types an amount once the form offers what is left, because it does so anew when the page learns of another remainder. */
async function typeAmount(amount: string, { left }: { left: string }): Promise<void> {
  const field = dialog().getByLabel('Amount to refund')
  await expect.poll(() => field.inputValue()).toBe(left)
  await field.fill(amount)
}

test('after a declined card the same one is tried anew, and another one subscribes', async () => {
  await opened.open('/subscriptions')
  await button('Subscribe').click()
  await dialog().getByLabel('Account id').fill('acct_subscribes')
  await choose('bk_test_insufficient_funds')
  const path = '/api/billing/subscribe'
  expect(await send('Subscribe', path)).toEqual([402, 'payment_declined'])
  expect(await send('Subscribe', path)).toEqual([402, 'payment_declined'])
  await choose('bk_test_ok')
  expect(await send('Subscribe', path)).toEqual([201])
  const { payments } = (await world.get('/api/sandbox/provider/payments')).body.data
  const tried = payments.filter((one: { account_id: string }) => one.account_id === 'acct_subscribes')
  expect(tried.map(({ status }: { status: string }) => status)).toEqual(['paid', 'declined', 'declined'])
})

test('after a declined card another one pays the open invoice', async () => {
  const id = await subscribed('acct_past_due', 'bk_test_fails_on_renewal')
  await world.advanceBy('P1M')
  await opened.open(`/subscriptions/${id}`)
  await button('Change payment method').click()
  await choose('bk_test_stolen')
  const path = '/api/billing/payment-method'
  expect(await send('Change payment method', path)).toEqual([402, 'payment_declined'])
  await choose('bk_test_ok')
  expect(await send('Change payment method', path)).toEqual([200])
  await page.getByText('Active', { exact: true }).first().waitFor()
})

test('after a declined refund the same amount is tried anew, and so is another', async () => {
  await subscribed('acct_no_refunds', 'bk_test_refund_fails')
  await openInvoice('acct_no_refunds')
  const path = '/api/billing/refund'
  expect(await send(/^Refund ₩29,000/, path)).toEqual([402, 'refund_declined'])
  expect(await send(/^Refund ₩29,000/, path)).toEqual([402, 'refund_declined'])
  await typeAmount('9000', { left: '29,000' })
  expect(await send(/^Refund ₩9,000/, path)).toEqual([402, 'refund_declined'])
  const { refunds } = await invoiceOf('acct_no_refunds')
  expect(refunds.map(({ amount }: { amount: number }) => amount)).toEqual([29_000, 29_000, 9_000])
})

test('a refund whose answer was lost is asked for again and made once, whatever was asked for in between', async () => {
  await subscribed('acct_lost_answer', 'bk_test_ok')
  await openInvoice('acct_lost_answer')
  await typeAmount('9000', { left: '29,000' })
  const path = '/api/billing/refund'
  await page.route(
    `**${path}`,
    async (route) => {
      await route.fetch()
      await route.abort()
    },
    { times: 1 },
  )
  const lost = page.waitForEvent('requestfailed')
  await button(/^Refund ₩9,000/, dialog()).click()
  await lost
  await typeAmount('5000', { left: '20,000' })
  expect(await send(/^Refund ₩5,000/, path)).toEqual([200])
  const refunded = async () => (await invoiceOf('acct_lost_answer')).amount_refunded
  expect(await refunded()).toBe(14_000)

  await button('Refund').click()
  await typeAmount('9000', { left: '15,000' })
  expect(await send(/^Refund ₩9,000/, path)).toEqual([200])
  expect(await refunded()).toBe(14_000)
  await page.getByText('This was done before, and not a second time.').waitFor()

  // Who means a second one has it.
  await button('Refund').click()
  expect(await send(/^Refund ₩9,000/, path)).toEqual([200])
  expect(await refunded()).toBe(23_000)
})

test('a refund that is not decided yet is asked for again and made once', async () => {
  await subscribed('acct_undecided', 'bk_test_ok')
  await openInvoice('acct_undecided')
  await typeAmount('9000', { left: '29,000' })
  const path = '/api/billing/refund'
  await world.post('/api/sandbox/provider/faults', { error_after_rate: 1, lookup_error_rate: 1 })
  expect(await send(/^Refund ₩9,000/, path)).toEqual([202])
  await world.post('/api/sandbox/provider/faults', {})
  await world.advanceBy('PT1H')
  await expect.poll(async () => (await invoiceOf('acct_undecided')).amount_refunded).toBe(9_000)
  await button('Refund').click()
  await typeAmount('9000', { left: '20,000' })
  expect(await send(/^Refund ₩9,000/, path)).toEqual([200])
  expect((await invoiceOf('acct_undecided')).amount_refunded).toBe(9_000)
})

test('no page made the browser complain', () => {
  expect(opened.complaints).toEqual([])
})
