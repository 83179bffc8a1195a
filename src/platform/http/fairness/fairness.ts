import type { Socket } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { othersFirst } from '../../pieces.ts'
import { type Refusal, refuseRequest } from '../../refusal.ts'
import { openRequestRate } from './request-rate.ts'
import { openShare } from './share.ts'
import { openTurns, type Turns } from './turns.ts'

export type FairnessOptions = {
  /** How many requests of one token and scope are worked at a time; 0 is no limit. */
  readonly concurrency: number
  /** How many requests a minute one token may make under `ratedPrefix`; 0 is no limit. */
  readonly perMinute: number
  readonly ratedPrefix: string
  /** Tells whether the connections to the database, or the process's time, run short. */
  readonly isCrowded: () => boolean
}

declare module 'fastify' {
  interface FastifyRequest {
    /** What this request holds of its token's share; given back once it is answered and its connection is done with it. */
    share: Held | null
  }
}

type Held = {
  readonly held: [Turns, string][]
  answered: boolean
  closed: boolean
  /** Frees its place, while it waits for a turn. */
  leave: (() => void) | undefined
}

// Shorter than the time in which a request must have arrived whole: who waits is told so, not that it sends too slowly.
const mostWaiting = { waiting: 512, waitMs: 25_000 }
const largeBytes = 64 * 1024
const largePage = 50
// A few may arrive or leave while one is worked, so that a slow peer does not hold up the others of its token.
const largeInTransit = 4
// Most of what a large request takes is the database's time, and it does several at once. Nobody else wants it.
const largeWhenAlone = 4
// An answer of which nothing was taken for so long is not waited for: its place belongs to the next.
const takenWithinMs = 30_000

/**
 * One token cannot crowd out the others. Per scope it has so many requests in work and the next ones wait their turn
 * before their bodies are read; per scope, so that charges waiting for a provider that hangs do not hold up the same
 * token's reads. Of what is large, a body or an answer, a few are in transit and, if there are other tokens, one is
 * worked at a time: a body from parsing to its answer, an answer until it is written. It is worked in pieces, and others
 * come in between.
 */
export function openFairness({ concurrency, perMinute, ratedPrefix, isCrowded }: FairnessOptions) {
  const share = openShare(concurrency, isCrowded)
  const requests =
    concurrency > 0 ? openTurns({ atOnce: share.now, pauseMs: share.pauseMs, ...mostWaiting }) : undefined
  const inTransit = openTurns({ atOnce: () => largeInTransit, ...mostWaiting })
  const worked = openTurns({ atOnce: () => (share.isAlone() ? largeWhenAlone : 1), ...mostWaiting })
  const rate = perMinute > 0 ? openRequestRate(perMinute) : undefined

  async function take(turns: Turns, request: FastifyRequest, name: string, withinMs?: number): Promise<void> {
    if (!turns.tryTake(name)) {
      const mine = request.share!
      const onPlace = (leave: () => void) => {
        mine.leave = leave
        if (mine.closed) leave()
      }
      const isIn = await turns.wait(name, request.routeOptions.config.access!, onPlace, withinMs)
      mine.leave = undefined
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
      // Whoever left while the token was looked up is gone already, and nothing tells of it any more.
      const closed = request.raw.socket.destroyed
      request.share = { held: [], answered: false, closed, leave: undefined }
      watchClose(request, reply)
      const line = lineOf(request)
      share.seen(request.principal.tokenId)
      // All waits before the body is read are one: what they leave over is the time in which it has to arrive.
      const leftMs = () => Math.max(0, mostWaiting.waitMs - (performance.now() - request.startedAt))
      if (requests) await take(requests, request, line, leftMs())
      const asksForMuch = !hasLargeBody(request) && mayBeAnsweredAtLength(request)
      if (!asksForMuch && !hasLargeBody(request)) return
      await take(inTransit, request, line, leftMs())
      if (!asksForMuch) return
      await take(worked, request, request.principal.tokenId)
      // A request that is put in without a connection has a socket that knows no time.
      request.raw.socket.setTimeout?.(takenWithinMs)
      await othersFirst()
    },

    /** Called between the reading of a large body and its parsing. */
    async admitLarge(request: FastifyRequest): Promise<void> {
      await take(worked, request, request.principal.tokenId)
      giveBack(request, inTransit)
      await othersFirst()
    },

    /** Whether it is worked as the one large request of its token. */
    isLarge({ share: mine }: FastifyRequest): boolean {
      return mine?.held.some(([turns]) => turns === worked) ?? false
    },

    answered(request: FastifyRequest): void {
      if (!request.share) return
      request.share.answered = true
      giveBack(request, worked)
      if (request.share.closed) giveAllBack(request)
    },
  }
}

function lineOf({ principal, routeOptions }: FastifyRequest): string {
  return `${principal.tokenId} ${routeOptions.config.access}`
}

export function hasLargeBody({ headers, principal }: FastifyRequest): boolean {
  if (!principal) return false
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > largeBytes
}

/** A long page: making and writing it takes as long as reading a large body. */
function mayBeAnsweredAtLength({ query, routeOptions: { config } }: FastifyRequest): boolean {
  const { limit, ...others } = query as { limit?: string | string[]; [field: string]: unknown }
  if (config.longWith !== undefined && others[config.longWith] !== undefined) return true
  return limit === undefined ? config.longPages === true : !(Number(limit) <= largePage)
}

function hold(request: FastifyRequest, turns: Turns, name: string): void {
  request.share!.held.push([turns, name])
}

const underWay = new WeakMap<Socket, Set<FastifyRequest>>()

/**
 * Of a connection that breaks Node tells only the request that is being answered, not those that were sent behind it. They
 * are many, so they share one listener.
 */
function watchClose(request: FastifyRequest, reply: FastifyReply): void {
  reply.raw.once('close', () => close(request))
  const { socket } = request.raw
  const those = underWay.get(socket) ?? new Set()
  those.add(request)
  if (underWay.has(socket)) return
  underWay.set(socket, those)
  socket.once('close', () => those.forEach(close))
}

/** The connection is done with the request. If its work goes on without a listener, it still counts. */
function close(request: FastifyRequest): void {
  underWay.get(request.raw.socket)?.delete(request)
  if (!request.share) return
  request.share.closed = true
  request.share.leave?.()
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
  return refuseRequest('rate_limited', { message, headers: { 'retry-after': String(seconds) } })
}
