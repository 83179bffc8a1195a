import { setTimeout as sleep } from 'node:timers/promises'
import { registerKeywords } from '../../src/batch/keywords/register-keywords.ts'
import { createRandom } from '../../src/batch/learning/random.ts'
import type { RankObservation } from '../../src/batch/ranks/rank.ts'
import { recordRanks } from '../../src/batch/ranks/record-ranks.ts'
import type { Answer, World } from '../world.ts'

/** Registers the keywords of some ranks and stores the ranks, by the use-cases and so without the rate limit. */
export async function store(
  world: World,
  workspaceId: string,
  ranks: readonly RankObservation[],
): Promise<void> {
  const keywords = [...new Set(ranks.map(({ keyword }) => keyword as string))]
  for (let at = 0; at < keywords.length; at += 100) {
    await registerKeywords(world.app.batch, workspaceId, keywords.slice(at, at + 100))
  }
  for (let at = 0; at < ranks.length; at += 1000) {
    const { rejected } = await recordRanks(world.app.batch, workspaceId, ranks.slice(at, at + 1000))
    if (rejected > 0) throw new Error(`${rejected} ranks were rejected`)
  }
}

export function trigger(world: World, task: string, token?: string): Promise<Answer> {
  return world.post('/api/batch/trigger', { task }, token === undefined ? {} : { token })
}

let buckets = 0

/** Asks for a run until it has ended. Each look counts against a workspace, so each takes another. */
export async function ended(world: World, runId: string, timeoutMs = 600_000) {
  return runUntil(world, runId, ({ status }) => !['queued', 'running'].includes(status), timeoutMs)
}

export async function runUntil(
  world: World,
  runId: string,
  holds: (run: { status: string; progress: number }) => boolean,
  timeoutMs = 600_000,
) {
  const deadline = performance.now() + timeoutMs
  for (;;) {
    const { status, body } = await world.get(`/api/batch/runs/${runId}?workspace_id=looks_${buckets++ % 50}`)
    if (status !== 200) throw new Error(`GET run answered ${status}`)
    if (holds(body.data)) return body.data
    if (performance.now() > deadline) throw new Error(`run ${runId} is still ${JSON.stringify(body.data)}`)
    await sleep(50)
  }
}

/** Triggers a task and waits for its end. */
export async function run(world: World, task: string) {
  const answer = await trigger(world, task)
  if (answer.status !== 202) throw new Error(`trigger answered ${answer.status} ${answer.text}`)
  return ended(world, answer.body.data.run_id)
}

/**
 * A week up to 2030-01-14 in which every rank rises, holds or falls by lot: no day says anything about the next, so
 * what comes of training on it is class shares, in no time.
 */
export function aimlessWeek(): RankObservation[] {
  const random = createRandom(3)
  const places = Array.from({ length: 200 }, () => 1000 + random.below(2000))
  return Array.from({ length: 7 * places.length }, (_, at): RankObservation => {
    const keyword = at % places.length
    places[keyword]! *= [0.85, 1, 1.18][random.below(3)]!
    const day = `2030-01-${String(8 + Math.floor(at / places.length)).padStart(2, '0')}`
    const position = Math.round(places[keyword]!)
    return { keyword: `aimless ${keyword}`, day, status: 'ranked', position, searched_depth: 10_000 }
  })
}
