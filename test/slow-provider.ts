import { createServer, type IncomingMessage, type ServerResponse, request as send } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

export type ProviderCall = { readonly what: string; readonly body: string; readonly at: number }

/** Stands before a sandbox provider, makes it slow, loses answers on demand, and remembers every call that began. */
export async function openSlowProvider(target: string, delayMs: number) {
  const calls: ProviderCall[] = []
  const state = {
    delayMs,
    /** Whether the answer to a call is lost on its way. */
    losesAnswer: (_call: ProviderCall) => false,
    /** Holds the answer to a call up. */
    beforeAnswer: async (_call: ProviderCall): Promise<void> => {},
  }
  const lostAccounts = new Set<string>()
  const accountOf = new Map<string, string>()

  const isLost = (call: ProviderCall): boolean => {
    const { account_id, reference } = (call.body === '' ? {} : JSON.parse(call.body)) as Record<
      string,
      string
    >
    if (account_id !== undefined && reference !== undefined) accountOf.set(reference, account_id)
    const account = accountOf.get(reference ?? call.what.split('/').at(-1)!)
    return state.losesAnswer(call) || (account !== undefined && lostAccounts.has(account))
  }

  async function pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const body = Buffer.concat(chunks)
    const call = { what: `${request.method} ${request.url}`, body: body.toString(), at: performance.now() }
    calls.push(call)
    await sleep(state.delayMs)
    const answer = await forward(target + request.url, request, body)
    await state.beforeAnswer(call)
    if (isLost(call)) request.socket.destroy()
    else response.writeHead(answer.status, { 'content-type': 'application/json' }).end(answer.text)
  }

  const server = createServer((request, response) => {
    pass(request, response).catch(() => request.socket.destroy())
  })
  const listen = (port: number) => new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  await listen(0)
  const { port } = server.address() as AddressInfo
  const hangUp = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve())
      server.closeAllConnections()
    })
  return {
    url: `http://127.0.0.1:${port}`,
    calls,
    state,
    charges: () => calls.filter(({ what }) => what === 'POST /v1/charges'),
    /** Loses every answer about an account's charges, lookups too, until they are found again. */
    lose(accountId: string) {
      lostAccounts.add(accountId)
      return { found: () => void lostAccounts.delete(accountId) }
    },
    /** From now on nobody listens there. */
    hangUp,
    listenAgain: () => listen(port),
    close: () => void hangUp(),
  }
}

/** On a connection of its own, so that none is left open when either end closes. */
function forward(
  url: string,
  { method, headers }: IncomingMessage,
  body: Buffer,
): Promise<{ status: number; text: string }> {
  const { host: _host, connection: _connection, ...others } = headers
  return new Promise((resolve, reject) => {
    const asking = send(url, { method, headers: others, agent: false }, async (answer) => {
      let text = ''
      for await (const chunk of answer) text += chunk
      resolve({ status: answer.statusCode ?? 0, text })
    })
    asking.on('error', reject)
    asking.end(body)
  })
}
