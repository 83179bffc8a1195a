import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/**
 * What a link can suffer. `delay`: every piece comes late. `cut`: connections are reset, new ones too. `half_open`: both
 * ends stay connected and nothing arrives. `clog`: nothing is read; it all arrives once the link is well again.
 */
export const linkFaults = ['delay', 'cut', 'half_open', 'clog'] as const
export type LinkFault = (typeof linkFaults)[number]

/** Looks at the bytes of one connection: those that went on to the far end, and those that the far end sent. */
export type Tap = { sent?(bytes: Buffer): void; answered?(bytes: Buffer): void }

export type TcpProxy = {
  readonly port: number
  suffer(fault: LinkFault): void
  heal(): void
  close(): Promise<void>
}

export type ProxyOptions = {
  /** Where a new connection goes. Undefined: nobody is there, and it is reset. */
  readonly target: () => number | undefined
  readonly tap?: () => Tap
}

const delayMs = 250

/** A TCP link between two processes that can be made to misbehave. */
export async function openProxy({ target, tap }: ProxyOptions): Promise<TcpProxy> {
  let fault: LinkFault | undefined
  const connections = new Set<Connection>()
  const current = () => fault

  const accept = (near: Socket) => {
    const port = fault === 'half_open' ? undefined : target()
    if (fault === 'cut' || (port === undefined && fault !== 'half_open')) {
      near.on('error', () => {})
      end(near)
      return
    }
    const far = port === undefined ? undefined : connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    connections.add(
      joined(near, far, { fault: current, tap: tap?.() ?? {}, onEnd: (one) => connections.delete(one) }),
    )
  }
  const server = createServer({ allowHalfOpen: true, noDelay: true }, accept)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))

  const heal = () => {
    fault = undefined
    for (const connection of [...connections]) {
      // Bytes are missing in it: whoever comes back finds that the other end knows nothing of it.
      if (connection.isDamaged()) connection.reset()
      else connection.flow()
    }
  }
  return {
    port: (server.address() as AddressInfo).port,
    suffer(next) {
      heal()
      fault = next
      for (const connection of [...connections]) {
        if (next === 'cut') connection.reset()
        else connection.flow()
      }
    },
    heal,
    async close() {
      for (const connection of [...connections]) connection.reset()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

type Connection = {
  isDamaged(): boolean
  /** Goes on reading, or stops, as the link is now. */
  flow(): void
  reset(): void
}

type Link = {
  readonly fault: () => LinkFault | undefined
  readonly tap: Tap
  readonly onEnd: (connection: Connection) => void
}

function joined(near: Socket, far: Socket | undefined, { fault, tap, onEnd }: Link): Connection {
  let damaged = far === undefined
  const held = new Set<Socket>()

  const flow = (socket: Socket) => {
    if (held.has(socket) || fault() === 'clog') socket.pause()
    else socket.resume()
  }
  const hold = (socket: Socket) => {
    held.add(socket)
    socket.pause()
    return () => {
      held.delete(socket)
      flow(socket)
    }
  }
  /** Hands on what came from one end, and reads no more of it until the other has taken it. */
  const pass = (bytes: Buffer, from: Socket, to: Socket, look: Tap['sent']) => {
    const release = hold(from)
    const write = () => {
      look?.(bytes)
      if (to.destroyed || to.write(bytes)) release()
      else to.once('drain', release)
    }
    if (fault() === 'delay') setTimeout(write, delayMs)
    else write()
  }

  const relay = (from: Socket, to: Socket | undefined, look: Tap) => {
    from.on('data', (bytes) => {
      look.answered?.(bytes)
      if (fault() === 'half_open' || to === undefined) damaged = true
      else pass(bytes, from, to, look.sent)
    })
    from.on('end', () => fault() !== 'half_open' && to?.end())
    from.on('error', () => {})
    from.on('close', () => {
      // The far end of a half-open connection does not learn that the near one has gone.
      if (fault() === 'half_open') damaged = true
      else connection.reset()
    })
    flow(from)
  }
  const connection: Connection = {
    isDamaged: () => damaged,
    flow() {
      flow(near)
      if (far) flow(far)
    },
    reset() {
      onEnd(connection)
      for (const socket of [near, far]) if (socket) end(socket)
    },
  }
  // A request counts when it goes on, an answer as soon as it was given, whatever becomes of it.
  relay(near, far, tap.sent ? { sent: tap.sent } : {})
  if (far) relay(far, near, tap.answered ? { answered: tap.answered } : {})
  return connection
}

/** With a reset if that is possible: one whose last word was sent already cannot be reset, and would stay open for ever. */
function end(socket: Socket): void {
  if (socket.destroyed) return
  if (socket.writableEnded || socket.connecting) socket.destroy()
  else socket.resetAndDestroy()
}
