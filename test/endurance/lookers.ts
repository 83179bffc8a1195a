import { type Call, openClient, type Tally } from './client.ts'

/** Callers of routes that have nothing to do with the provider, each of whom asks again as soon as it is answered. */
export type Lookers = {
  /** Answers so far. */
  readonly answered: { batch: number; read: number }
  readonly tally: Tally
  stop(): Promise<void>
}

const callersOfEach = 6
// Twenty thousand workspaces may ask 33,000 times a second between them, so it is not the limiter that decides.
const workspaces = 20_000

export function openLookers(url: string, token: string): Lookers {
  const client = openClient({ url: () => url, token })
  const answered = { batch: 0, read: 0 }
  let stopped = false
  let next = 0

  const look = async (group: 'batch' | 'read', calls: (n: number) => readonly [string, Call][]) => {
    while (!stopped) {
      for (const [route, call] of calls(next++)) {
        if (stopped) return
        await client.ask(route, call)
        answered[group]++
      }
    }
  }
  const callers = Array.from({ length: callersOfEach }, () => [
    look('batch', batchCalls),
    look('read', readCalls),
  ])

  return {
    answered,
    tally: client.tally,
    async stop() {
      stopped = true
      await Promise.all(callers.flat())
      client.close()
    },
  }
}

function batchCalls(n: number): readonly [string, Call][] {
  const workspace_id = `ws_${n % workspaces}`
  const query = { workspace_id }
  const keywords = [`word ${n % 50}`, `word ${(n + 1) % 50}`]
  const observations = [
    { keyword: keywords[0]!, day: '2026-10-01', status: 'ranked', position: 1 + (n % 100) },
  ]
  return [
    ['POST /api/batch/keywords', { body: { workspace_id, keywords }, expect: [200] }],
    ['POST /api/batch/ranks', { body: { workspace_id, observations }, expect: [200] }],
    ['GET /api/batch/ranks/{keyword}', { at: [keywords[0]!], query, expect: [200] }],
    // Nothing is stored for these; to find that out costs the same.
    ['GET /api/batch/volumes/{keyword}', { at: [keywords[0]!], query, expect: [200, 404] }],
  ]
}

function readCalls(): readonly [string, Call][] {
  const limit = '20'
  return [
    ['GET /api/billing/subscriptions', { query: { limit }, expect: [200] }],
    ['GET /api/billing/invoices', { query: { limit }, expect: [200] }],
    ['GET /api/billing/upcoming', { query: { limit, until: '2027-12-01T00:00:00Z' }, expect: [200] }],
    ['GET /api/billing/events', { query: { limit }, expect: [200] }],
  ]
}
