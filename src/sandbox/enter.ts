import { setTimeout as sleep } from 'node:timers/promises'
import { newId } from '../platform/id.ts'
import type { Entered, Keyed } from './book.ts'
import type { ProviderContext } from './provider-context.ts'
import { refuse } from './refusals.ts'

/** Slow work holds its key meanwhile, so that a repeat learns that the first is still at it; the money moves at the end. */
export async function enter(
  context: ProviderContext,
  request: Pick<Keyed, 'key' | 'fingerprint'>,
  slowMs: number,
  move: (keyed: Keyed) => Promise<Entered>,
): Promise<Entered> {
  const keyed: Keyed = {
    ...request,
    claimant: newId('req_'),
    now: await context.now(),
    keyWindowMs: context.keyWindowMs,
  }
  if (slowMs === 0) return context.notifyAfter(move(keyed))

  const claim = await context.book.claim(keyed, slowMs + deadAfterMs)
  if (claim.outcome !== 'act') return claim
  await sleep(slowMs, undefined, { signal: context.closing }).catch(() => {
    throw refuse('provider_down')
  })
  return context.notifyAfter(move({ ...keyed, now: await context.now() }))
}

// A server that has not answered this long after it meant to is dead, and a repeat takes over.
const deadAfterMs = 10_000
