import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Refusal, refuse } from '../refusal.ts'
import { openRequestRate } from './request-rate.ts'
import { openTurns, type Turns } from './turns.ts'

export type FairnessOptions = {
  /** How many requests of one token and scope are worked at a time; 0 is no limit. */
  readonly concurrency: number
  /** How many requests a minute one token may make under `ratedPrefix`; 0 is no limit. */
  readonly perMinute: number
  readonly ratedPrefix: string
}

declare module 'fastify' {
  interface FastifyRequest {
    /** What this request holds of its token's share; given back once it is answered and its connection is done with it. */
    share: Share | null
  }
}

type Share = { readonly held: [Turns, string][]; answered: boolean; closed: boolean }

const mostWaiting = 512
const largeBytes = 64 * 1024
// A few may arrive while one is worked, so that a slow sender does not hold up the others of its token.
const largeArriving = 4

/**
 * One token cannot crowd out the others. Per scope it has so many requests in work and the next ones wait their turn
 * before their bodies are read; of its large bodies a few are read and one is worked at a time, from parsing to the
 * answer. Per scope, so that charges waiting for a provider that hangs do not hold up the same token's reads.
 */
export function openFairness({ concurrency, perMinute, ratedPrefix }: FairnessOptions) {
  const requests = concurrency > 0 ? openTurns({ atOnce: concurrency, waiting: mostWaiting }) : undefined
  const arriving = openTurns({ atOnce: largeArriving, waiting: mostWaiting })
  const worked = openTurns({ atOnce: 1, waiting: mostWaiting })
  const rate = perMinute > 0 ? openRequestRate(perMinute) : undefined

  async function take(turns: Turns, request: FastifyRequest, name: string): Promise<void> {
    if (!turns.tryTake(name)) {
      let leave = () => {}
      const onGone = () => leave()
      request.raw.socket.once('close', onGone)
      const isIn = await turns.wait(name, (toLeave) => {
        leave = toLeave
      })
      request.raw.socket.off('close', onGone)
      if (!isIn) throw tooMany(1, 'This token has too many requests under way; wait for Retry-After.')
    }
    hold(request, turns, name)
  }

  return {
    /** Called once the token is known, before the body is read. */
    async admit(request: FastifyRequest, reply: FastifyReply): Promise<void> {
      if (!request.principal) return
      if (rate && request.routeOptions.url?.startsWith(ratedPrefix)) {
        const seconds = rate.admit(request.principal.tokenId)
        if (seconds > 0)
          throw tooMany(
            seconds,
            `This token has made its ${perMinute} billing requests of the last minute; wait for Retry-After.`,
          )
      }
      request.share = { held: [], answered: false, closed: false }
      reply.raw.once('close', () => closed(request))
      const { tokenId } = request.principal
      if (requests) await take(requests, request, `${tokenId} ${request.routeOptions.config.access}`)
      if (isLarge(request)) await take(arriving, request, tokenId)
    },

    /** Called between the reading of a large body and its parsing. */
    async admitLarge(request: FastifyRequest): Promise<void> {
      await take(worked, request, request.principal.tokenId)
      giveBack(request, arriving)
      // Whoever else has something to do goes first.
      await new Promise(setImmediate)
    },

    answered(request: FastifyRequest): void {
      if (!request.share) return
      request.share.answered = true
      if (request.share.closed) giveAllBack(request)
    },
  }
}

export function isLarge({ headers, principal }: FastifyRequest): boolean {
  if (!principal) return false
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > largeBytes
}

function hold(request: FastifyRequest, turns: Turns, name: string): void {
  request.share!.held.push([turns, name])
}

/** The connection is done with the request. If its work goes on without a listener, it still counts. */
function closed(request: FastifyRequest): void {
  if (!request.share) return
  request.share.closed = true
  if (request.share.answered) giveAllBack(request)
}

function giveBack({ share }: FastifyRequest, turns: Turns): void {
  const at = share!.held.findIndex(([held]) => held === turns)
  for (const [held, name] of at < 0 ? [] : share!.held.splice(at, 1)) held.give(name)
}

function giveAllBack({ share }: FastifyRequest): void {
  for (const [turns, name] of share!.held.splice(0)) turns.give(name)
}

function tooMany(seconds: number, message: string): Refusal {
  return refuse('rate_limited', { message, headers: { 'retry-after': String(seconds) } })
}
