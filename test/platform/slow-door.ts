import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { buildHttp, type HttpOptions } from '../../src/platform/http/http.ts'

/** A door of its own with a route that answers when it is told to. */
export async function openSlowDoor(
  { access, limiter }: Pick<HttpOptions, 'access' | 'limiter'>,
  concurrency: number,
) {
  const waiting: (() => void)[] = []
  const http = buildHttp({
    access,
    limiter,
    openPrefixes: [],
    onAnswer() {},
    onFault() {},
    fairness: { concurrency, perMinute: 0, ratedPrefix: '/', isCrowded: () => false },
  })
  http.get('/slow', { config: { access: 'batch:read' } }, async () => {
    await new Promise<void>((resolve) => waiting.push(resolve))
    return { success: true }
  })
  http.get('/quick', { config: { access: 'billing:read' } }, async () => ({ success: true }))
  const sizes: number[] = []
  /** How long the work on a large body takes. */
  const pace = { ms: 20 }
  http.post('/large', { config: { access: 'batch:read' }, bodyLimit: 2 ** 21 }, async (request) => {
    sizes.push(++working)
    await sleep(pace.ms)
    working--
    return { size: JSON.stringify(request.body).length }
  })
  http.get('/list', { config: { access: 'batch:read' } }, async (request) => {
    sizes.push(++working)
    await sleep(20)
    working--
    // More than the kernel keeps for a peer that takes nothing.
    return { text: 'x'.repeat((request.query as { huge?: string }).huge ? 16_000_000 : 10) }
  })
  let working = 0
  const url = await http.listen({ host: '127.0.0.1', port: 0 })
  return {
    http,
    url,
    waiting,
    sizes,
    pace,
    port: (http.server.address() as AddressInfo).port,
    connections: () =>
      new Promise<number>((resolve) => http.server.getConnections((_error, count) => resolve(count))),
  }
}
