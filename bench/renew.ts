import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'

/** Lets a renewal process renew so many, and says how many it did in a second. */
export async function renew(service: ChildProcess, count: number): Promise<number> {
  service.send(count)
  const ended = once(service, 'exit').then(() => {
    throw new Error('the service under measurement ended')
  })
  const [perSecond] = (await Promise.race([once(service, 'message'), ended])) as [number]
  return perSecond
}
