import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'

type Row = Record<string, unknown>
export type Answer = { status: number; text: string; data: Row }
export type Asker = ReturnType<typeof openAsker>

/** A caller of the API over HTTP, of whichever release. It waits where a limit says so; anything but 2xx and 402 is a fault of the story. */
export function openAsker(base: string, token: string) {
  const ask = async (
    method: string,
    path: string,
    body?: object,
    key: string = randomUUID(),
  ): Promise<Answer> => {
    const answer = await fetch(base + path, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body && { 'content-type': 'application/json', 'idempotency-key': key }),
      },
      ...(body && { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    if (answer.status === 429) {
      await sleep(1000 * Number(answer.headers.get('retry-after')))
      return ask(method, path, body, key)
    }
    if (answer.status >= 300 && answer.status !== 402)
      throw new Error(`${method} ${path}: ${answer.status} ${text}`)
    return { status: answer.status, text, data: (text === '' ? {} : (JSON.parse(text).data ?? {})) as Row }
  }
  /** Whatever is answered, as text. */
  const raw = async (path: string) => {
    const answer = await fetch(base + path, { headers: { authorization: `Bearer ${token}` } })
    return { status: answer.status, text: await answer.text() }
  }
  const get = (path: string): Promise<Answer> => ask('GET', path)
  const post = (path: string, body: object, key?: string): Promise<Answer> => ask('POST', path, body, key)

  const list = async (path: string, plural: string): Promise<Row[]> => {
    const rows: Row[] = []
    for (let cursor: unknown = ''; cursor !== null; ) {
      const mark = path.includes('?') ? '&' : '?'
      const next = cursor === '' ? '' : `&cursor=${encodeURIComponent(String(cursor))}`
      const { data } = await get(`${path}${mark}limit=100${next}`)
      rows.push(...(data[plural] as Row[]))
      cursor = data['next_cursor'] ?? null
    }
    return rows
  }
  const invoicesOf = (account: string) => list(`/api/billing/invoices?account_id=${account}`, 'invoices')

  return {
    raw,
    get,
    post,
    list,
    put: (path: string, body: object) => ask('PUT', path, body),
    delete: (path: string) => ask('DELETE', path),
    deleteWith: (path: string, body: object) => ask('DELETE', path, body),
    advance: (duration: string) => post('/api/sandbox/clock', { advance_by: duration }),

    /** Subscribes, and gives back what can be repeated word for word. */
    async subscribe(account: string, billingKey: string, key: string = randomUUID()) {
      const body = {
        account_id: account,
        plan_id: 'starter-monthly',
        payment_method: { billing_key: billingKey },
        timezone: 'Asia/Seoul',
        customer: { email: `${account}@mail.test`, name: account },
      }
      const { status, text } = await post('/api/billing/subscribe', body, key)
      return { path: '/api/billing/subscribe', key, body, status, text }
    },
    async subscriptionOf(account: string): Promise<unknown> {
      const rows = await list(`/api/billing/subscriptions?account_id=${account}`, 'subscriptions')
      return rows[0]!['subscription_id']
    },
    invoicesOf,
    invoiceOf: async (account: string) => (await invoicesOf(account))[0]!['invoice_id'],

    /** Starts a task of batch once the timetable's own run of it has ended, and waits for its end. */
    async run(task: string): Promise<Row> {
      const isOpen = ({ status }: Row) => status === 'queued' || status === 'running'
      while ((await list(`/api/batch/runs?task=${task}`, 'runs')).some(isOpen)) await sleep(300)
      const { data } = await post('/api/batch/trigger', { task })
      for (;;) {
        const { data: run } = await get(`/api/batch/runs/${data['run_id']}`)
        if (run['status'] === 'failed') throw new Error(`${task}: ${JSON.stringify(run)}`)
        if (!isOpen(run)) return run
        await sleep(300)
      }
    },
  }
}
