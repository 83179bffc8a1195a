import type { FastifyRequest, RouteOptions } from 'fastify'
import { troubleOf } from '../database/database-errors.ts'
import { isWritePosition, type Replica, type WritePosition } from '../database/replica.ts'
import { Refusal } from '../refusal.ts'
import type { Http } from './http.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * May show what was true a few seconds ago, so a replica may answer: its handler reads by `reading(app, request)`.
     * Only for a GET that nobody takes money by, and that writes nothing.
     */
    mayLag?: true
  }
  interface FastifyRequest {
    /** This request reads the replica. */
    lags: boolean
  }
}

export type ReplicaReads = {
  readonly replica: Pick<Replica, 'state' | 'hasReplayed' | 'noteAway'>
  readonly writePosition: () => Promise<WritePosition>
  readonly onRead: (from: ReadSource) => void
}

/** Which database answered a request that may lag, and why the primary did. */
export type ReadSource =
  | 'replica'
  | 'position'
  | 'own_write'
  | 'behind'
  | 'away'
  | 'foreign'
  | 'unknown'
  | 'failed'

/** Where a request reads: the replica if its route may lag and this once it may be read, else the primary. */
export function reading<App extends { readonly replica?: Partial<App> }>(
  app: App,
  request: FastifyRequest,
): App {
  return request.lags && app.replica ? { ...app, ...app.replica } : app
}

/** Refuses the start when a route that writes says that it may lag. */
export function requireReadsThatLag(http: Http): void {
  http.decorateRequest('lags', false)
  http.addHook('onRoute', ({ url, method, config }: RouteOptions) => {
    if (config?.mayLag && ![method].flat().every((one) => one === 'GET' || one === 'HEAD'))
      throw new Error(`${String(method)} ${url} says that it may lag; only reads may.`)
  })
}

/**
 * Lets routes that may lag read a replica. Whoever sends back the position of a write never reads what was before it,
 * through whichever process; without one, whoever wrote through this process a moment ago reads the primary.
 */
export function readFromReplica(http: Http, { replica, writePosition, onRead }: ReplicaReads): void {
  const writes = openOwnWrites()

  http.addHook('onSend', async (request, reply) => {
    if (!request.principal || readMethods.has(request.method)) return
    // Noted before the answer leaves: the next request may be on its way as soon as it arrives.
    writes.note(request.principal.tokenId)
    const position = await writePosition().catch(() => undefined)
    if (position !== undefined) reply.header(positionHeader, position)
  })

  async function choose(request: FastifyRequest): Promise<ReadSource> {
    const state = replica.state()
    if (state !== 'ready') return state
    const known = request.headers[positionHeader]
    if (known === undefined)
      return request.principal && writes.isRecent(request.principal.tokenId) ? 'own_write' : 'replica'
    // A position that cannot be read is not known to be reached.
    if (typeof known !== 'string' || !isWritePosition(known)) return 'position'
    return (await replica.hasReplayed(known)) ? 'replica' : 'position'
  }

  http.addHook('onRoute', (route: RouteOptions) => {
    if (!route.config?.mayLag) return
    const handle = route.handler
    route.handler = async function (request, reply) {
      const source = await choose(request).catch((): ReadSource => 'failed')
      if (source !== 'replica') {
        onRead(source)
        return handle.call(this, request, reply)
      }
      request.lags = true
      try {
        const answer = await handle.call(this, request, reply)
        onRead('replica')
        return answer
      } catch (error) {
        if (error instanceof Refusal) throw error
        // Whatever the replica cannot do (it is gone, recovery took the rows away, a migration has not arrived), the
        // primary can; and what is our own fault fails there again.
        if (troubleOf(error) === 'unreachable') replica.noteAway()
        onRead('failed')
        request.lags = false
        return handle.call(this, request, reply)
      }
    }
  })
}

const positionHeader = 'x-write-position'

/** Whether a caller names a write of which it wants to see all that came of it. */
export function namesWrite(request: FastifyRequest): boolean {
  return request.headers[positionHeader] !== undefined
}
const readMethods = new Set(['GET', 'HEAD', 'OPTIONS'])
const recentMs = 10_000

/** Which tokens wrote through this process a moment ago, oldest first. */
function openOwnWrites() {
  const wroteAt = new Map<string, number>()
  const isOver = (at: number) => performance.now() - at > recentMs
  return {
    note(tokenId: string): void {
      wroteAt.delete(tokenId)
      wroteAt.set(tokenId, performance.now())
      for (const [id, at] of wroteAt) {
        if (!isOver(at)) break
        wroteAt.delete(id)
      }
    },
    isRecent(tokenId: string): boolean {
      const at = wroteAt.get(tokenId)
      return at !== undefined && !isOver(at)
    },
  }
}
