import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { RankQueue, Source, TaggedAsk } from '../../src/batch/sources/port.ts'
import { openSources } from '../../src/batch/sources/registry.ts'
import { dataforseoWire } from '../../src/sandbox/sources/dataforseo-wire.ts'
import {
  type Fault,
  openSourceSandbox,
  type SourceSandbox,
} from '../../src/sandbox/sources/source-sandbox.ts'
import { openWeb } from '../../src/sandbox/sources/web.ts'

/** What every source that takes orders must do, as `contract.test.ts` asks of those that answer at once. */
let sandbox: SourceSandbox
const opened: Source[] = []
beforeAll(async () => {
  sandbox = await openSourceSandbox({ wire: dataforseoWire, slowMs: 1, taskSeconds: 0 })
})
afterAll(async () => {
  for (const source of opened) source.close()
  await sandbox.close()
})

function open(password = 'good-key', baseUrl = sandbox.url): RankQueue {
  const settings = {
    name: 'dataforseo_queue',
    credentials: { login: 'login', password },
    baseUrl,
    ratePerSecond: 1000,
    budgetPerDay: 1000,
    workspaceBudgetPerDay: 0,
  } as const
  const source = openSources([settings]).get('dataforseo_queue')!
  opened.push(source)
  return source.ranks!.queue!
}

async function underFault<T>(fault: Fault, act: () => Promise<T>): Promise<T> {
  sandbox.setFaults({ [fault]: 1 })
  try {
    return await act()
  } finally {
    sandbox.setFaults({ [fault]: 0 })
  }
}

let tags = 0
describe.each(['google', 'naver'])('orders of dataforseo_queue at %s', (engine) => {
  const ask = (): TaggedAsk => ({
    keyword: '나이키 운동화 100%+',
    engine,
    device: 'desktop',
    location: 'KR',
    language: 'ko',
    depth: 20,
    tag: `tag-${engine}-${++tags}`,
  })
  const ordered = async (queue: RankQueue): Promise<{ id: string; engine: string; device: string }> => {
    const answers = await queue.order([ask()])
    const [one] = 'kind' in answers ? [answers] : answers
    if (one?.kind !== 'ordered') throw new Error(`not ordered: ${JSON.stringify(one)}`)
    return { id: one.id, engine, device: 'desktop' }
  }

  test('what is ordered is listed under its tag, and holds the results in their order', async () => {
    const queue = open()
    const asks = [ask(), ask()]
    const answers = await queue.order(asks)
    const ids = 'kind' in answers ? [] : answers.map((one) => (one.kind === 'ordered' ? one.id : one.kind))
    expect(new Set(ids).size).toBe(2)
    const ready = await queue.listReady(engine)
    expect(ready).toMatchObject({ kind: 'ready', isWhole: true })
    const listed = ready.kind === 'ready' ? ready.orders : []
    expect(listed).toEqual(expect.arrayContaining(asks.map(({ tag }, at) => ({ id: ids[at], tag }))))
    const day = new Date().toISOString().slice(0, 10)
    const search = { keyword: asks[0]!.keyword, engine, device: 'desktop', location: 'KR', day }
    const collected = await queue.collect({ id: ids[0]!, engine, device: 'desktop' })
    expect(collected).toMatchObject({
      kind: 'results',
      urls: openWeb('web').results(search).slice(0, 20),
      readAt: expect.any(Date),
    })
    // It may be collected again, and is no longer listed.
    expect(await queue.collect({ id: ids[0]!, engine, device: 'desktop' })).toEqual(collected)
    const after = await queue.listReady(engine)
    expect(after.kind === 'ready' && after.orders.map(({ id }) => id)).not.toContain(ids[0])
  })

  test('a refused key is our trouble, and an empty balance ends the day: nothing was ordered', async () => {
    const { paid } = sandbox.book
    expect(await open('key-refused').order([ask()])).toMatchObject({
      of: 'credentials',
      reason: 'credentials_refused',
      paid: false,
    })
    expect(await open('key-empty').order([ask()])).toMatchObject({ of: 'quota', paid: false })
    expect(await open('key-refused').listReady(engine)).toMatchObject({ of: 'credentials' })
    expect(sandbox.book.paid).toBe(paid)
  })

  test('nobody there: nothing was sent', async () => {
    const nobody = open('good-key', 'http://127.0.0.1:1')
    expect(await nobody.order([ask()])).toMatchObject({ reason: 'unreachable', paid: false })
    expect(await nobody.listReady(engine)).toMatchObject({ reason: 'unreachable' })
  })

  test.each<[Fault, string]>([
    ['hang_up', 'broken_off'],
    ['broken', 'not_json'],
  ])('%s while ordering leaves it unsure whether it was taken', async (fault, reason) => {
    const queue = open()
    const one = ask()
    expect(await underFault(fault, () => queue.order([one]))).toEqual([{ kind: 'unsure', reason }])
    // It was, and its tag tells.
    const ready = await queue.listReady(engine)
    expect(ready.kind === 'ready' && ready.orders.map(({ tag }) => tag)).toContain(one.tag)
  })

  test('a source that says it is out of order has taken nothing', async () => {
    const { paid } = sandbox.book
    expect(await underFault('unavailable', () => open().order([ask()]))).toMatchObject({
      kind: 'failed',
      of: 'answer',
      reason: 'source_error',
      paid: false,
    })
    expect(sandbox.book.paid).toBe(paid)
  })

  test.each<Fault>(['unavailable', 'hang_up', 'broken'])(
    '%s while collecting: it is still there',
    async (fault) => {
      const queue = open()
      const order = await ordered(queue)
      expect(await underFault(fault, () => queue.collect(order))).toMatchObject({ kind: 'not_collected' })
      expect(await queue.collect(order)).toMatchObject({ kind: 'results' })
    },
  )

  test('a search that could not be read failed, one without results is an answer, another device is not believed', async () => {
    const queue = open()
    const fateOf = async (fault: Fault) => queue.collect(await underFault(fault, () => ordered(queue)))
    expect(await fateOf('unreadable')).toMatchObject({ kind: 'failed', of: 'answer', paid: true })
    expect(await fateOf('empty')).toMatchObject({ kind: 'results', urls: [] })
    expect(await fateOf('wrong_device')).toMatchObject({ kind: 'failed', reason: 'wrong_device' })
    expect(await fateOf('slow')).toEqual({ kind: 'queued' })
    const unknown = await queue.collect({ id: 'nobody-s', engine, device: 'desktop' })
    expect(unknown).toMatchObject({ kind: 'failed', reason: 'order_unknown' })
  })
})
