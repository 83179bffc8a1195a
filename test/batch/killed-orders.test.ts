import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { dataforseoWire } from '../../src/sandbox/sources/dataforseo-wire.ts'
import { openSourceSandbox, type SourceSandbox } from '../../src/sandbox/sources/source-sandbox.ts'
import { openWeb } from '../../src/sandbox/sources/web.ts'
import { type ServiceProcess, startService } from '../processes/service-process.ts'
import { openWorld, type World } from '../world.ts'
import { trackerBody } from './tracker-body.ts'

const words = Array.from({ length: 60 }, (_, n) => `word ${n}`)
let world: World
let source: SourceSandbox
let door: Awaited<ReturnType<typeof openDoor>>
let workers: ServiceProcess[] = []

beforeAll(async () => {
  source = await openSourceSandbox({ wire: dataforseoWire })
  door = await openDoor(source.url)
  world = await openWorld({
    now: '2030-01-15T00:00:00Z',
    environment: {
      DATAFORSEO_LOGIN: 'login',
      DATAFORSEO_PASSWORD: 'sandbox-password',
      DATAFORSEO_BASE_URL: door.url,
      DATAFORSEO_QUEUE_BUDGET_PER_DAY: '1000',
      // The same account sells volumes, of which a night's run would buy some.
      DATAFORSEO_BUDGET_PER_DAY: '0',
    },
  })
  await world.post('/api/batch/keywords', { workspace_id: 'ws', keywords: words })
})
afterAll(async () => {
  for (const { child } of workers) child.kill('SIGKILL')
  await world.close()
  await door.close()
  await source.close()
})

/** The way to the source, on which answers can be held back: what was asked for has been done, and nobody knows yet. */
async function openDoor(origin: string) {
  let held: RegExp | undefined
  let waiting = 0
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const { authorization = '' } = request.headers
    const answer = await fetch(origin + request.url, {
      method: request.method!,
      headers: { authorization, 'content-type': 'application/json' },
      ...(chunks.length > 0 && { body: Buffer.concat(chunks) }),
    })
    const text = await answer.text()
    if (held?.test(request.url!)) waiting++
    while (held?.test(request.url!) && !response.destroyed) await sleep(10)
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(text)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    hold(path: RegExp) {
      held = path
      waiting = 0
    },
    release: () => {
      held = undefined
    },
    isHolding: () => waiting > 0,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

async function startWorkers(): Promise<void> {
  workers = [1, 2].map(() => startService(['work'], world.environment))
  await Promise.all(workers.map((worker) => worker.event('service.started')))
}
async function killWorkers(): Promise<void> {
  await Promise.all(
    workers.map(async ({ child }) => {
      child.kill('SIGKILL')
      await once(child, 'exit')
    }),
  )
}
const turnTo = async (instant: string) => {
  const body = JSON.stringify({ advance_to: instant })
  await fetch(`${source.url}/__sandbox/clock`, { method: 'POST', body })
  await world.app.clock.moveTo(new Date(instant))
}
const statuses = async () => {
  const found = await world.query<{ status: string; count: number }>(
    `select status, count(*)::int as count from batch.rank_check group by status order by status`,
  )
  return Object.fromEntries(found.map(({ status, count }) => [status, count]))
}
/** Runs are started by the workers themselves, and by us should they not have noticed yet; one under way refuses another. */
async function until(isThere: () => Promise<boolean>): Promise<void> {
  while (!(await isThere())) {
    await world.post('/api/batch/trigger', { task: 'collect_ranks' })
    await sleep(200)
  }
}

test('workers killed while they order and while they collect: every order is found again, and none is paid for twice', async () => {
  await world.ask('PUT', '/api/batch/trackers/main', {
    body: trackerBody({ engine: 'naver', source: 'dataforseo_queue' }),
  })
  await startWorkers()
  door.hold(/task_post/)
  await turnTo('2030-01-15T22:05:00Z')
  await until(async () => door.isHolding())
  await killWorkers()
  door.release()
  expect(source.book.paid).toBe(words.length)

  // Two others find orders of which nobody knows whether they were taken, and place none anew.
  await startWorkers()
  await until(async () => (await statuses())['ordered'] === words.length)
  expect(await world.query('select 1 from batch.rank_order where order_id is null')).toHaveLength(
    words.length,
  )

  // They are ready; whoever collects is killed as well, before anything of it is stored.
  door.hold(/task_get/)
  await turnTo('2030-01-15T22:15:00Z')
  await until(async () => door.isHolding())
  await killWorkers()
  door.release()
  await startWorkers()
  await turnTo('2030-01-15T22:40:00Z')
  await until(async () => (await statuses())['done'] === words.length)

  expect([source.book.paid, source.book.paidAgain]).toEqual([words.length, 0])
  expect(
    await world.query(
      `select spent, reserved, lost from batch.source_spending where scope = '' and source = 'dataforseo_queue'`,
    ),
  ).toEqual([{ spent: words.length, reserved: 0, lost: 0 }])
  const stored = await world.query<{ keyword: string; position: number | null; day: string }>(
    `select k.display as keyword, r.position, r.day from batch.rank r
     join batch.keyword k on k.workspace_id = r.workspace_id and k.id = r.keyword_id where r.status <> 'failed'`,
  )
  expect(stored).toHaveLength(words.length)
  const web = openWeb('web')
  for (const { keyword, position, day } of stored) {
    const results = web.results({ keyword, engine: 'naver', device: 'mobile', location: 'KR', day })
    const at = results.slice(0, 10).findIndex((url) => /\/\/([a-z]+\.)?example\.com\//.test(url))
    expect([keyword, position]).toEqual([keyword, at < 0 ? null : at + 1])
  }
})
