import { createServer, type Server, request as send } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { size } from '../size.ts'
import { openWorld, type World } from '../world.ts'
import { type ServiceProcess, startService } from './service-process.ts'

let world: World
const running: ServiceProcess[] = []

function start(...args: string[]): ServiceProcess {
  const service = startService(args, world.environment)
  running.push(service)
  return service
}

beforeAll(async () => {
  world = await openWorld()
})
afterAll(async () => {
  for (const service of running) service.child.kill('SIGKILL')
  await world.close()
})

test('two serve and two work processes let exactly 100 of 1,000 parallel requests of a workspace in, and 200 of two', async () => {
  const serves = [start('serve', '--no-worker'), start('serve')]
  const works = [start('work'), start('work')]
  const urls = await Promise.all(serves.map((serve) => serve.url()))
  await Promise.all(works.map((work) => work.event('service.started')))

  const admitted = async (workspaces: string[]) => {
    const statuses = await Promise.all(
      Array.from({ length: 1000 }, async (_, at) => {
        const workspace = workspaces[at % workspaces.length]
        const answer = await fetch(`${urls[at % 2]}/api/batch/volumes/abc?workspace_id=${workspace}`, {
          headers: { authorization: `Bearer ${world.token}` },
        })
        await answer.text()
        return answer.status
      }),
    )
    expect(new Set(statuses)).toEqual(new Set([404, 429]))
    return statuses.filter((status) => status === 404).length
  }
  expect(await admitted(['alone'])).toBe(100)
  expect(await admitted(['first', 'second'])).toBe(200)

  expect(await Promise.all([...serves, ...works].map((one) => one.stop()))).toEqual([0, 0, 0, 0])
})

// Its proxy and the draining service go by real seconds, which a machine that stands still takes away from both.
test('a rolling restart behind a proxy that follows /readyz loses no request', { retry: 3 }, async () => {
  const backends: string[] = []
  const proxy = await startProxy(() => backends)
  const address = `http://127.0.0.1:${(proxy.server.address() as AddressInfo).port}`
  let current = start('serve')
  backends.push(await current.url())
  await proxy.settled()

  let stopLoad = false
  const statuses: Record<string, number> = {}
  const clients = Array.from({ length: 8 }, async (_, client) => {
    for (let n = 0; !stopLoad; n++) {
      // A new workspace for each few requests, so that the limiter is not what answers.
      const answer = await fetch(
        `${address}/api/batch/volumes/abc?workspace_id=roll_${client}_${Math.floor(n / 50)}`,
        {
          headers: { authorization: `Bearer ${world.token}` },
        },
      ).catch((error) => ({ status: String(error.cause?.code ?? error.message), text: async () => '' }))
      await answer.text()
      statuses[answer.status] = (statuses[answer.status] ?? 0) + 1
    }
  })
  for (let restart = 0; restart < size(2, 3); restart++) {
    const next = start('serve')
    const url = await next.url()
    backends.push(url)
    await proxy.settled()
    const stoppingAt = performance.now()
    expect(await current.stop()).toBe(0)
    expect(performance.now() - stoppingAt).toBeLessThan(60_000)
    backends.splice(0, 1)
    current = next
  }
  await sleep(300)
  stopLoad = true
  await Promise.all(clients)
  proxy.server.close()
  expect(Object.keys(statuses)).toEqual(['404'])
  expect(statuses['404']).toBeGreaterThan(200)
  expect(await current.stop()).toBe(0)
})

/** Sends each request to a backend whose last `/readyz` was 200, as a load balancer does. */
async function startProxy(backends: () => string[]): Promise<{ server: Server; settled(): Promise<void> }> {
  const ready = new Set<string>()
  const probe = async () => {
    for (const url of backends()) {
      const status = await fetch(`${url}/readyz`).then(
        (answer) => answer.status,
        () => 0,
      )
      if (status === 200) ready.add(url)
      else ready.delete(url)
    }
    for (const url of ready) if (!backends().includes(url)) ready.delete(url)
  }
  const timer = setInterval(() => void probe(), 100)
  let turn = 0
  const server = createServer((incoming, outgoing) => {
    const choices = [...ready]
    const url = choices[turn++ % choices.length]
    if (url === undefined) return void outgoing.writeHead(502).end('no backend')
    const onward = send(
      url + incoming.url,
      { method: incoming.method!, headers: incoming.headers },
      (answer) => {
        outgoing.writeHead(answer.statusCode!, answer.headers)
        answer.pipe(outgoing)
      },
    )
    onward.on('error', () => outgoing.headersSent || outgoing.writeHead(502).end('lost'))
    incoming.pipe(onward)
  })
  server.on('close', () => clearInterval(timer))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    server,
    async settled() {
      while (!backends().every((url) => ready.has(url))) await sleep(50)
    },
  }
}
