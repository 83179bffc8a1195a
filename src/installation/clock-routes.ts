import { setTimeout as sleep } from 'node:timers/promises'
import Type from 'typebox'
import type { App } from '../app.ts'
import { openFetchJson } from '../platform/fetch-json.ts'
import { envelope, success } from '../platform/http/answers.ts'
import type { Http } from '../platform/http/http.ts'
import { isUrlOfLoopback } from '../platform/loopback.ts'
import { Refusal, refusalsOf } from '../platform/refusal.ts'
import { addDuration, parseDuration, parseInstant, renderInstant } from '../platform/time.ts'
import { claimMove, isMoving } from './clock-move-rows.ts'
import { type Moved, moveClock } from './move-clock.ts'

const refuse = refusalsOf({
  clock_backwards: ['malformed', 'Time only goes forward; name a later instant.'],
  clock_moving: ['conflict', 'The clock is being moved; wait until it stands.'],
  clock_fixed: ['conflict', 'This provider keeps its own time, so the clock cannot be moved.'],
})

const answerWithinMs = 240_000
const furthestYears = 30
// A move of many steps must not wait for a silent provider at each of them.
const silenceMs = 10_000

/** The sandbox's movable clock. Mounted in sandbox mode only. */
export function clockRoutes(http: Http, app: App): void {
  const access = { config: { access: 'admin' as const } }
  const now = () => renderInstant(app.clock(), app.config.timeZone)
  const provider = openProviderClock(app)
  http.addHook('onClose', async () => provider?.close())

  http.get(
    '/api/sandbox/clock',
    {
      ...access,
      schema: {
        operationId: 'getClock',
        summary: 'What time it is',
        tags: ['sandbox'],
        response: { 200: success(Type.Object({ now: Type.String(), moving: Type.Boolean() })) },
      },
    },
    async () => {
      await app.clock.sync()
      return envelope({ now: now(), moving: await isMoving(app.pool) })
    },
  )

  const Done = success(
    Type.Object(
      {
        now: Type.String(),
        done: Type.Record(Type.String(), Type.Integer()),
        unsettled: Type.Integer(),
      },
      { title: 'ClockMoved' },
    ),
  )
  http.post(
    '/api/sandbox/clock',
    {
      ...access,
      schema: {
        operationId: 'moveClock',
        summary: 'Move time forward, doing all that falls due on the way',
        tags: ['sandbox'],
        body: Type.Object(
          {
            advance_by: Type.Optional(
              Type.String({ maxLength: 64, description: 'An ISO 8601 duration such as P1M' }),
            ),
            advance_to: Type.Optional(
              Type.String({ maxLength: 64, description: 'An instant with an offset' }),
            ),
          },
          { additionalProperties: false },
        ),
        errors: refuse.may('clock_backwards', 'clock_moving', 'clock_fixed'),
        response: { 200: Done, 202: Done },
      },
    },
    async (request, reply) => {
      if (!isMovable(app)) throw refuse('clock_fixed')
      await app.clock.sync()
      const target = targetOf(app, request.body)
      if (!(await claimMove(app.pool, target))) throw refuse('clock_moving')
      const moving = moveClock(app, target, provider?.turn)
      const moved = await Promise.race([moving, sleep(answerWithinMs, undefined, { ref: false })])
      // It goes on without us; a failure then is logged where the sweep's failures are.
      if (!moved) moving.catch((error) => app.log.error('sweep.failed', { sweep: 'move-clock', error }))
      const { done, unsettled }: Moved = moved ?? { done: {}, unsettled: 0 }
      return reply.code(moved ? 200 : 202).send(envelope({ now: now(), done, unsettled }))
    },
  )
}

/**
 * Simulators in databases of their own have their own clocks, and are turned along. One that is ahead or does not answer
 * stays as it is: the next step of the move finds it again.
 */
function openProviderClock({ config, sandboxKey }: App) {
  const clocks = config.providers.flatMap(({ name, baseUrl, secretKey = sandboxKey }) => {
    if (baseUrl === undefined || secretKey === undefined) return []
    return name === 'sandbox' || isUrlOfLoopback(baseUrl) ? [openClockAt(baseUrl, secretKey)] : []
  })
  // Simulators of sources keep no secrets: any key opens their clock.
  for (const { baseUrl } of config.sources)
    if (baseUrl !== undefined && isUrlOfLoopback(baseUrl)) clocks.push(openClockAt(baseUrl, 'sandbox'))
  if (clocks.length === 0) return undefined
  return {
    turn: async (instant: Date) => void (await Promise.all(clocks.map((clock) => clock.turn(instant)))),
    close: async () => void (await Promise.all(clocks.map((clock) => clock.close()))),
  }
}

function openClockAt(baseUrl: string, key: string) {
  const fetchJson = openFetchJson({ timeoutMs: 2_000, maxConnections: 1 })
  const url = `${baseUrl.replace(/\/+$/, '')}/__sandbox/clock`
  const headers = { authorization: `Bearer ${key}` }
  let silentUntil = 0
  return {
    async turn(instant: Date): Promise<void> {
      if (performance.now() < silentUntil) return
      const body = JSON.stringify({ advance_to: instant.toISOString() })
      const { kind } = await fetchJson({ method: 'POST', url, headers, body })
      if (kind !== 'answered') silentUntil = performance.now() + silenceMs
    },
    close: () => fetchJson.close(),
  }
}

function isMovable({ config }: App): boolean {
  const { name, baseUrl } = config.provider
  return name === 'sandbox' || (baseUrl !== undefined && isUrlOfLoopback(baseUrl))
}

function targetOf(app: App, body: { advance_by?: string; advance_to?: string }): Date {
  const now = app.clock()
  const duration = body.advance_by === undefined ? undefined : parseDuration(body.advance_by)
  const target =
    body.advance_to === undefined
      ? duration && addDuration(now, duration, app.config.timeZone)
      : body.advance_by === undefined
        ? parseInstant(body.advance_to)
        : undefined
  if (!target)
    throw malformed(
      'Give either advance_by (a duration such as P1M) or advance_to (an instant with an offset).',
    )
  if (target <= now) throw refuse('clock_backwards')
  if (target.getTime() - now.getTime() > furthestYears * 366 * 86_400_000) {
    throw malformed(`Move at most ${furthestYears} years at once.`)
  }
  return target
}

function malformed(message: string): Refusal {
  return new Refusal('malformed', 'validation_failed', 'The clock cannot be moved like that; see details.', {
    details: [{ path: 'body', code: 'invalid', message }],
  })
}
