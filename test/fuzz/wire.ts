import { connect, type Socket } from 'node:net'

/** Bytes as they go onto the wire. */
export type Sent = {
  readonly bytes: Buffer
  /** The answer to HEAD has a length and no body. */
  readonly head: boolean
  /** Not over the kept connection: these bytes may leave it in a state nobody can go on from. */
  readonly fresh: boolean
  /** Says "that was all" after the bytes, without which a server rightly waits for the rest. */
  readonly halfClose: boolean
  /** The loopback address it comes from. */
  readonly from?: string
  /** How long an answer may take. */
  readonly patienceMs?: number
}

export type Heard =
  | {
      readonly kind: 'answered'
      readonly status: number
      readonly headers: ReadonlyMap<string, string>
      readonly body: Buffer
      /** Bytes that nobody asked for, behind the answer. */
      readonly surplus: number
      readonly ms: number
    }
  | { readonly kind: 'closed'; readonly ms: number }
  | { readonly kind: 'late'; readonly ms: number }

const ordinaryPatienceMs = 60_000

export type Wire = { ask(sent: Sent): Promise<Heard>; close(): void }

/** An HTTP client that sends any bytes it is given and believes nothing: ordinary clients refuse to be this rude. */
export function openWire(port: number): Wire {
  let kept: Socket | undefined

  return {
    async ask(sent) {
      const startedAt = performance.now()
      const ms = () => performance.now() - startedAt
      const socket =
        (sent.fresh ? undefined : kept) ?? (await open(port, sent.from).catch(() => open(port, undefined)))
      if (!sent.fresh) kept = undefined
      const raw = await exchange(socket, sent, sent.patienceMs ?? ordinaryPatienceMs)
      const reusable = !sent.fresh && typeof raw !== 'string' && raw.whole && raw.surplus === 0
      if (reusable && raw.headers.get('connection') !== 'close' && !socket.destroyed) kept = socket
      else socket.destroy()
      if (typeof raw === 'string') return { kind: raw, ms: ms() }
      const { status, headers, body, surplus } = raw
      return { kind: 'answered', status, headers, body, surplus, ms: ms() }
    },
    close() {
      kept?.destroy()
    },
  }
}

function open(port: number, from: string | undefined): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({
      port,
      host: '127.0.0.1',
      allowHalfOpen: true,
      ...(from !== undefined && { localAddress: from }),
    })
    socket.setNoDelay(true)
    socket.once('error', reject)
    socket.once('connect', () => {
      socket.off('error', reject)
      // A reset shows as a close; there is nothing more to learn from its error.
      socket.on('error', () => {})
      resolve(socket)
    })
  })
}

type Parsed = {
  status: number
  headers: Map<string, string>
  body: Buffer
  surplus: number
  whole: boolean
}

function exchange(socket: Socket, sent: Sent, patienceMs: number): Promise<Parsed | 'closed' | 'late'> {
  return new Promise((resolve) => {
    let seen: Buffer = Buffer.alloc(0)
    const finish = (outcome: Parsed | 'closed' | 'late') => {
      clearTimeout(timer)
      socket.off('data', take)
      socket.off('end', ended)
      socket.off('close', ended)
      resolve(outcome)
    }
    const take = (chunk: Buffer) => {
      seen = seen.length === 0 ? chunk : Buffer.concat([seen, chunk])
      const parsed = parse(seen, sent.head, false)
      if (parsed?.whole) finish(parsed)
    }
    const ended = () => finish(parse(seen, sent.head, true) ?? 'closed')
    const timer = setTimeout(() => finish('late'), patienceMs)
    socket.on('data', take)
    socket.once('end', ended)
    socket.once('close', ended)
    if (sent.halfClose) socket.end(sent.bytes)
    else socket.write(sent.bytes)
  })
}

/** Reads the first final answer; undefined while its head is not there. */
function parse(seen: Buffer, head: boolean, ended: boolean): Parsed | undefined {
  const end = seen.indexOf('\r\n\r\n')
  if (end === -1) return undefined
  const [first = '', ...lines] = seen.subarray(0, end).toString('latin1').split('\r\n')
  const status = Number(/^HTTP\/1\.[01] (\d{3})/.exec(first)?.[1] ?? 0)
  const rest = seen.subarray(end + 4)
  if (status >= 100 && status < 200) return parse(rest, head, ended)

  const headers = new Map(
    lines.map((line): [string, string] => {
      const at = line.indexOf(':')
      return [line.slice(0, at).toLowerCase(), line.slice(at + 1).trim()]
    }),
  )
  const of = (body: Buffer, taken: number, whole: boolean): Parsed => ({
    status,
    headers,
    body,
    surplus: rest.length - taken,
    whole,
  })
  if (head || status === 204 || status === 304) return of(Buffer.alloc(0), 0, true)
  if (headers.get('transfer-encoding') === 'chunked') {
    const chunked = unchunk(rest)
    return of(chunked.body, chunked.taken, chunked.whole)
  }
  const length = headers.get('content-length')
  if (length === undefined) return of(rest, rest.length, ended)
  return of(rest.subarray(0, Number(length)), Number(length), rest.length >= Number(length))
}

function unchunk(bytes: Buffer): { body: Buffer; taken: number; whole: boolean } {
  const parts: Buffer[] = []
  let at = 0
  for (;;) {
    const lineEnd = bytes.indexOf('\r\n', at)
    if (lineEnd === -1) return { body: Buffer.concat(parts), taken: at, whole: false }
    const size = Number.parseInt(bytes.subarray(at, lineEnd).toString('latin1'), 16)
    const next = lineEnd + 2 + size + 2
    if (bytes.length < next) return { body: Buffer.concat(parts), taken: at, whole: false }
    if (size === 0) return { body: Buffer.concat(parts), taken: next, whole: true }
    parts.push(bytes.subarray(lineEnd + 2, lineEnd + 2 + size))
    at = next
  }
}
