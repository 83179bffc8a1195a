import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Book } from './book.ts'
import type { FaultInjector } from './faults.ts'
import type { WireObjects } from './wire-objects.ts'

/** What the provider's routes work with. */
export type ProviderContext = {
  readonly book: Book
  readonly faults: FaultInjector
  readonly objects: WireObjects
  readonly now: () => Promise<Date>
  readonly moveClock: (instant: Date) => Promise<void>
  readonly keyWindowMs: number
  readonly closing: AbortSignal
  /** Has the notifier look as soon as an entry that may be told of is in the book. */
  notifyAfter<T>(entry: Promise<T>): Promise<T>
}

/** The provider's own failure, when it was asked for. */
export function breakDown(reply: FastifyReply): FastifyReply {
  return sendJson(reply, 500, '{"error":{"code":"internal_error","message":"The provider failed."}}')
}

/** Never answers: the connection stays open until the client, or this server, goes. */
export async function hold(
  request: FastifyRequest,
  reply: FastifyReply,
  closing: AbortSignal,
): Promise<void> {
  reply.hijack()
  const { socket } = request.raw
  const end = () => socket.destroy()
  if (closing.aborted || socket.destroyed) return void end()
  closing.addEventListener('abort', end, { once: true })
  socket.once('close', () => closing.removeEventListener('abort', end))
}

export function sendJson(reply: FastifyReply, status: number, text: string): FastifyReply {
  return reply.code(status).type('application/json; charset=utf-8').send(text)
}
