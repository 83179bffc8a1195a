import type { History, RequestEntry } from '../simulation/history.ts'
import type { Random } from '../simulation/random.ts'
import type { Ask } from '../simulation/simulated-world.ts'
import type { Fleet, Serve } from './fleet.ts'
import type { ServiceTime } from './service-time.ts'

/** One thing a client wants, and every time it asked for it. */
export type Errand = { readonly ask: Ask; readonly entries: RequestEntry[] }

/** Asks over the wire and writes down what was said. */
export type Caller = {
  readonly errands: Errand[]
  /** Counts everything that is said, so that what came first can be told. */
  nextStep(): number
  send(ask: Ask, random: Random, patienceMs?: number): Promise<RequestEntry>
  /** Asks again under the same key until the answer is clear, so often at most. Tells whether it is. */
  carryThrough(errand: Errand, random: Random, tries: number): Promise<boolean>
}

/** Shorter than the service may take, so that clients also walk away from work that goes on. */
const patienceMs = 6_000
const never = {
  step: Number.POSITIVE_INFINITY,
  at: Number.POSITIVE_INFINITY,
  realAt: Number.POSITIVE_INFINITY,
}

export function openCaller(fleet: Fleet, history: History, time: ServiceTime): Caller {
  let steps = 0
  const moment = () => ({ step: steps++, at: time.latest(), realAt: Date.now() })

  const send: Caller['send'] = async (ask, random, patience = patienceMs) => {
    const serve = random.pick(fleet.serves)
    const entry = history.add<RequestEntry>({
      kind: 'request',
      step: steps++,
      method: ask.method,
      path: ask.path,
      body: ask.body,
      key: ask.key,
      process: serve.name,
      at: time.earliest(),
      realAt: Date.now(),
      // Without an answer it may have an effect at any time.
      ended: never,
      answer: null,
      exploded: false,
    })
    try {
      entry.answer = await exchange(serve, ask, fleet.token, patience)
      entry.ended = moment()
    } catch {
      // Nobody knows, and that is what the entry says.
    }
    return entry
  }

  const errands: Errand[] = []
  return {
    errands,
    nextStep: () => steps++,
    send,
    async carryThrough(errand, random, tries) {
      for (let count = 0; count < tries; count++) {
        const entry = await send(errand.ask, random)
        errand.entries.push(entry)
        if (isKept(entry)) endTogether(errand, entry)
        if (isClear(entry)) return true
        await pause(random.between(100, 900))
      }
      return false
    },
  }
}

async function exchange(
  { url }: Serve,
  ask: Ask,
  token: string,
  patience: number,
): Promise<{ status: number; text: string; replayed: boolean }> {
  const answer = await fetch(url + ask.path, {
    method: ask.method,
    headers: {
      authorization: `Bearer ${token}`,
      ...(ask.body !== undefined && { 'content-type': 'application/json' }),
      ...(ask.key !== undefined && { 'idempotency-key': ask.key }),
    },
    ...(ask.body !== undefined && { body: JSON.stringify(ask.body) }),
    signal: AbortSignal.timeout(patience),
  })
  const text = await answer.text()
  return { status: answer.status, text, replayed: answer.headers.get('idempotent-replayed') === 'true' }
}

/** Done, declined or refused, also by the provider (502): not 202, not "still at it", not a failure that says nothing. */
export function isClear({ answer }: RequestEntry): boolean {
  if (!answer || answer.status === 202 || answer.status === 500 || answer.status === 503) return false
  return !(answer.status === 409 && answer.text.includes('request_in_progress'))
}

function isKept({ answer }: RequestEntry): boolean {
  return answer !== null && [200, 201, 402].includes(answer.status)
}

/** A kept answer is the answer to all requests of its key: none of them does anything any more. */
function endTogether({ entries }: Errand, { ended }: RequestEntry): void {
  for (const entry of entries) if (entry.answer === null && ended) entry.ended = ended
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
