import { connect } from 'node:net'
import { createServer, type TLSSocket } from 'node:tls'
import type { Certificate } from './certificate.ts'

/** Opens a server by TLS to whoever listens at a plain address on this machine, and counts the bytes it is sent. */
export async function openTlsFront({ certificate, key }: Certificate, plainUrl: string) {
  const { port } = new URL(plainUrl)
  const open = new Set<TLSSocket>()
  let received = 0
  const server = createServer({ key, cert: certificate }, (socket) => {
    open.add(socket)
    const behind = connect(Number(port), '127.0.0.1')
    socket.on('data', ({ length }) => {
      received += length
    })
    socket.pipe(behind).pipe(socket)
    for (const one of [socket, behind])
      one.on('error', () => {
        socket.destroy()
        behind.destroy()
      })
    socket.on('close', () => {
      open.delete(socket)
      behind.destroy()
    })
    behind.on('close', () => socket.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `https://localhost:${(server.address() as { port: number }).port}`,
    received: () => received,
    close(): void {
      for (const socket of open) socket.destroy()
      server.close()
    },
  }
}
