import { readFileSync } from 'node:fs'

// What every installation must be able to do: take a subscription and print its invoice.
const [port, tokenFile] = process.argv.slice(2)
const url = `http://127.0.0.1:${port}`
const authorization = `Bearer ${readFileSync(tokenFile, 'utf8').trim()}`

const subscribed = await fetch(`${url}/api/billing/subscribe`, {
  method: 'POST',
  headers: { authorization, 'content-type': 'application/json' },
  body: JSON.stringify({
    account_id: 'acct_install',
    plan_id: 'pro-monthly',
    payment_method: { billing_key: 'bk_test_ok' },
    customer: { name: '홍길동' },
  }),
})
if (subscribed.status !== 201)
  throw new Error(`subscribe answered ${subscribed.status}: ${await subscribed.text()}`)

const listed = await fetch(`${url}/api/billing/invoices?account_id=acct_install`, {
  headers: { authorization },
})
const [invoice] = (await listed.json()).data.invoices
const printed = await fetch(`${url}/api/billing/invoices/${invoice.invoice_id}.pdf`, {
  headers: { authorization },
})
const bytes = Buffer.from(await printed.arrayBuffer())
if (printed.status !== 200 || bytes.subarray(0, 5).toString() !== '%PDF-')
  throw new Error(`the invoice answered ${printed.status} and is no PDF`)
const docs = await fetch(`${url}/docs/`)
if (docs.status !== 200) throw new Error(`the documentation answered ${docs.status}`)
const page = await fetch(`${url}/console`)
if (page.status !== 200 || !(await page.text()).includes('id="root"'))
  throw new Error(`the console answered ${page.status}`)
console.log(`subscribed, and printed an invoice of ${bytes.length} bytes`)
