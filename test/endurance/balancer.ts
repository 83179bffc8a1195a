import { Agent, createServer, request as send } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** A load balancer in small: each request goes to a backend whose last `/readyz` was 200. It never tries again. */
export type Balancer = {
  readonly url: string
  add(backend: string): void
  remove(backend: string): void
  /** Waits until this backend takes traffic. */
  ready(backend: string): Promise<void>
  close(): void
}

const probeEveryMs = 100

export async function openBalancer(): Promise<Balancer> {
  const backends = new Set<string>()
  const ready = new Set<string>()
  const agent = new Agent({ keepAlive: true })

  const follow = async (backend: string) => {
    while (backends.has(backend)) {
      if ((await readiness(backend)) && backends.has(backend)) ready.add(backend)
      else ready.delete(backend)
      await sleep(probeEveryMs)
    }
    ready.delete(backend)
  }

  let turn = 0
  const server = createServer((incoming, outgoing) => {
    const choices = [...ready]
    const backend = choices[turn++ % choices.length]
    if (backend === undefined) return void outgoing.writeHead(502).end('no backend is ready')
    const { method = 'GET', headers } = incoming
    const onward = send(backend + incoming.url, { method, headers, agent }, (answer) => {
      outgoing.writeHead(answer.statusCode!, answer.headers)
      answer.pipe(outgoing)
    })
    onward.on('error', () =>
      outgoing.headersSent ? outgoing.destroy() : outgoing.writeHead(502).end('lost'),
    )
    incoming.pipe(onward)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    add(backend) {
      backends.add(backend)
      void follow(backend)
    },
    remove: (backend) => void backends.delete(backend),
    async ready(backend) {
      while (!ready.has(backend)) await sleep(probeEveryMs / 4)
    },
    close() {
      backends.clear()
      server.closeAllConnections()
      server.close()
      agent.destroy()
    },
  }
}

async function readiness(backend: string): Promise<boolean> {
  try {
    const answer = await fetch(`${backend}/readyz`)
    await answer.text()
    return answer.status === 200
  } catch {
    return false
  }
}
