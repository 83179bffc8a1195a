import type pg from 'pg'
import { openPatientPool } from '../patience.ts'

export type SideName = 'A' | 'B'

/** A statement, the end of a transaction or a call to the provider: what a side does at one release. */
export type Step = {
  readonly side: SideName
  /** What it is, in a few words. */
  readonly label: string
  readonly kind: 'statement' | 'commit' | 'rollback' | 'provider'
  readonly text: string
  readonly inTransaction: boolean
  /** The session it runs on; none for the provider. */
  readonly pid: number | undefined
  state: 'waiting' | 'running' | 'done' | 'failed'
  /** When it was let go and when it was through, on one count for both sides. */
  releasedAt: number
  completedAt: number
  /** Rows that came back or were changed. */
  rows: number
  /** The database's word for why it failed. */
  code: string | undefined
}

/**
 * One of two parties, with a connection of its own. While it runs, everything it asks of the database or the provider
 * waits at a gate until it is released.
 */
export type Side = {
  readonly name: SideName
  readonly pool: pg.Pool
  /** In the order they arrived at the gate. */
  readonly waiting: Gate[]
  /** Released, and neither done nor failed. */
  readonly running: Set<Step>
  readonly pids: ReadonlySet<number>
  readonly result: PromiseSettledResult<unknown> | undefined
  start(work: () => Promise<unknown>): void
  /** Puts a call that is no statement behind the gate. */
  pass<T>(label: string, call: () => Promise<T>): Promise<T>
  /** Opens the gate for good, so that a run that went wrong comes to its end. */
  letGo(): void
  /** Resolves at the next arrival, completion or end. */
  stirred(): Promise<void>
  close(): Promise<void>
}

export type Gate = { readonly step: Step; open(): void }

let count = 0

export function openSide(name: SideName, url: string): Side {
  const waiting: Gate[] = []
  const running = new Set<Step>()
  const pids = new Set<number>()
  let started = false
  let result: Side['result']
  let stirred = openBell()
  const stir = () => {
    stirred.ring()
    stirred = openBell()
  }

  async function gated<T>(step: Step, rowsOf: (value: T) => number, work: () => Promise<T>): Promise<T> {
    // Outside of a run, and for `begin`, which locks nothing and sees nothing, the gate stands open.
    if (!started || step.label === 'begin') return work()
    await new Promise<void>((pass) => {
      const open = () => {
        step.state = 'running'
        step.releasedAt = ++count
        running.add(step)
        pass()
      }
      waiting.push({ step, open })
      stir()
    })
    try {
      const value = await work()
      step.rows = rowsOf(value)
      step.state = 'done'
      return value
    } catch (error) {
      step.state = 'failed'
      step.code = (error as { code?: string }).code
      throw error
    } finally {
      step.completedAt = ++count
      running.delete(step)
      stir()
    }
  }

  // A single connection: what a side does by itself keeps one order, and only the two sides mix.
  const pool = openPatientPool(url, 1, `interleaving ${name}`)
  pool.on('connect', (client) => {
    const pid = pidOf(client)
    pids.add(pid)
    stepStatements(client, (text, inTransaction, work) =>
      gated(statementStep(name, pid, text, inTransaction), (found) => found.rowCount ?? 0, work),
    )
  })

  return {
    name,
    pool,
    waiting,
    running,
    pids,
    get result() {
      return result
    },
    start(work) {
      started = true
      result = undefined
      const end = (how: PromiseSettledResult<unknown>) => {
        started = false
        result = how
        stir()
      }
      work().then(
        (value) => end({ status: 'fulfilled', value }),
        (reason: unknown) => end({ status: 'rejected', reason }),
      )
    },
    pass: (label, call) => gated(providerStep(name, label), () => 1, call),
    letGo() {
      started = false
      for (const { open } of waiting.splice(0)) open()
    },
    stirred: () => stirred.rung,
    close: () => pool.end(),
  }
}

/** A statement that commits at once, as a pool runs it, with time between its lock and its commit. */
export function committingLate(pool: pg.Pool): pg.Pool {
  const query = async (...given: unknown[]) => {
    const client = await pool.connect()
    try {
      await client.query('begin')
      const found = await (client.query as unknown as Query)(...given)
      await client.query('commit')
      return found
    } finally {
      client.release()
    }
  }
  return { query } as unknown as pg.Pool
}

function openBell(): { rung: Promise<void>; ring(): void } {
  let ring = () => {}
  const rung = new Promise<void>((resolve) => {
    ring = resolve
  })
  return { rung, ring }
}

type Query = (...given: unknown[]) => Promise<pg.QueryResult>
type Intercept = (
  text: string,
  inTransaction: boolean,
  work: () => Promise<pg.QueryResult>,
) => Promise<pg.QueryResult>

/** Puts every statement of a connection through `intercept`, in both ways the driver is called. */
function stepStatements(client: pg.PoolClient, intercept: Intercept): void {
  const query = client.query.bind(client) as unknown as Query
  let inTransaction = false
  const stepped = (...given: unknown[]) => {
    const callback = typeof given.at(-1) === 'function' ? (given.pop() as Callback) : undefined
    const text = textOf(given[0])
    if (/^begin\b/.test(text)) inTransaction = true
    const asked = intercept(text, inTransaction, () => query(...given))
    if (text === 'commit' || text === 'rollback') inTransaction = false
    if (!callback) return asked
    asked.then(
      (found) => callback(undefined, found),
      (error: unknown) => callback(error),
    )
    return undefined
  }
  client.query = stepped as unknown as typeof client.query
}

type Callback = (error: unknown, found?: pg.QueryResult) => void

function textOf(query: unknown): string {
  return typeof query === 'string' ? query : (query as { text: string }).text
}

function pidOf(client: pg.PoolClient): number {
  return (client as unknown as { processID: number }).processID
}

function statementStep(side: SideName, pid: number, text: string, inTransaction: boolean): Step {
  const kind = text === 'commit' || text === 'rollback' ? text : 'statement'
  return { side, label: labelOf(text), kind, text, inTransaction, pid, ...fresh }
}

function providerStep(side: SideName, label: string): Step {
  const provider = { kind: 'provider', text: '', inTransaction: false, pid: undefined } as const
  return { side, label, ...provider, ...fresh }
}

const fresh = { state: 'waiting', releasedAt: 0, completedAt: 0, rows: 0, code: undefined } as const

/** `update payment`, `lock subscription`: enough to follow a trace. */
function labelOf(text: string): string {
  const table = /"?(?:billing|platform|graphile_worker)"?\."?(\w+)/.exec(text)?.[1]
  if (table === undefined) return text.trim().slice(0, 40)
  const verb = isWrite(text) ? /\b(insert|update|delete)\b/i.exec(text)![1] : isLock(text) ? 'lock' : 'read'
  return `${verb} ${table}`
}

export function isWrite(text: string): boolean {
  return (
    /^\s*(?:insert|update|delete)\b/i.test(text) || /^\s*with\b.*\b(?:insert|update|delete)\b/is.test(text)
  )
}

/** A statement that asks for a row's lock, or for a key. */
export function isLock(text: string): boolean {
  return /\bfor (?:no key update|update|key share|share)\b/i.test(text) || isClaim(text)
}

/** A statement that takes a key which another transaction may be about to take. */
export function isClaim(text: string): boolean {
  return /\bon conflict\b|\bpg_advisory|\bplatform\.admit\(/i.test(text)
}
