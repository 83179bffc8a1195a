import { AsyncLocalStorage } from 'node:async_hooks'
import { syncBuiltinESMExports } from 'node:module'
import timersPromises from 'node:timers/promises'
import type pg from 'pg'

/** Places between two effects, where chance lets a process die. */
export const deathPlaces = [
  'before commit',
  'after commit',
  'before call',
  'after call',
  'before job',
  'after job',
] as const
/** Whoever wants every place has those inside a transaction too: there the server takes back what was done. */
export type DeathPlace = (typeof deathPlaces)[number] | 'before statement'

/** One incarnation of a process. What a dead one still tries to do does not happen. */
export type Life = { dead: boolean; held: boolean; readonly waiting: Waiter[] }

type Waiter = { resolve(): void; reject(error: Error): void }

/** A process of the service: one connection, so that its statements have one order. */
export type Process = {
  readonly name: string
  readonly connection: pg.Client
  readonly backendPid: number
  life: Life
  /** A statement is on its way to the database. */
  busy: boolean
}

/** One request, sweep or job on its way through a process, with everything it started. */
export type Flow = {
  readonly process: Process
  readonly life: Life
  /** Its own time spent waiting, which decides when callers are told to wait no longer. */
  elapsedMs: number
  readonly timers: Set<Timer>
  /** Calls of its own that hang, and how often it has waited since the first of them did. */
  hanging: number
  waits: number
  statements: number
  /** Runs somebody else's work before this many statements. */
  cut: { at: number; rival: () => Promise<void> } | undefined
  /** Somebody who waits for a lock of ours and goes first once it is free. */
  rival: Promise<void> | undefined
  exploded: boolean
}

type Timer = { readonly atMs: number; readonly ring: () => void }

/** The process died here. Nothing of ours catches it on purpose. */
export class Died extends Error {
  override name = 'Died'
}

const flows = new AsyncLocalStorage<Flow>()

export function currentFlow(): Flow | undefined {
  return flows.getStore()
}

export function newLife(): Life {
  return { dead: false, waiting: [], held: false }
}

export type Boundaries = {
  /** Called wherever the process may die. Throws `Died` if it does, or has. */
  at(place: DeathPlace): Promise<void>
  /** Lets real time pass for whoever waits in this flow. */
  spend(ms: number): void
  /** Waits in this flow, which takes no time unless a call of its own hangs. */
  wait(ms: number): Promise<void>
  /** Makes a call to the outside count as under way. */
  during<T>(call: () => Promise<T>): Promise<T>
  /** Holds the flow until it is released by a later step. */
  stall(): Promise<void>
  releaseStalled(): number
  /** Runs work in a process until everything it started has ended or is stalled. */
  run<T>(process: Process, work: () => Promise<T>): Promise<Ran<T>>
  /** Stops the first before one of its statements, lets the second go as far as locks allow, and goes on. */
  race<A, B>(first: Part<A>, second: Part<B>, cutAt: number): Promise<[Ran<A>, Ran<B>]>
  /** A pool as the service sees it, on the process's one connection. */
  poolOf(process: Process): pg.Pool
}

export type Part<T> = { readonly process: Process; readonly work: () => Promise<T> }

/** `stalled`: it has not ended; `died`: its process has. */
export type Ran<T> =
  | { kind: 'done'; value: T; exploded: boolean }
  | { kind: 'failed'; error: unknown; exploded: boolean }
  | { kind: 'stalled' }
  | { kind: 'died' }

export type BoundaryEvents = {
  /** Whether the process dies at this place. */
  dies(process: Process, place: DeathPlace): boolean
  /** Brings the connection's clock up to date, where that changed. */
  beforeUse(process: Process): Promise<void>
  /** Whether the process's statement waits for a lock that somebody else holds. */
  isBlocked(process: Process): Promise<boolean>
}

/**
 * Everything between the service and the outside: its statements, its timers and the places where it may die. Nothing
 * here waits for real time, and at any moment only one flow moves, so a run has one order of events.
 */
export function openBoundaries(events: BoundaryEvents): Boundaries {
  const activity = openActivity()
  const stalled: (() => void)[] = []

  async function die(process: Process): Promise<never> {
    const { life } = process
    life.dead = true
    process.life = newLife()
    for (const { reject } of life.waiting.splice(0)) reject(new Died())
    // As the server does when a connection breaks; the next life uses the same one.
    await process.connection.query('rollback')
    throw new Died()
  }

  async function at(place: DeathPlace): Promise<void> {
    const flow = flows.getStore()
    if (!flow) return
    requireAlive(flow)
    if (events.dies(flow.process, place)) await die(flow.process)
  }

  function spend(ms: number): void {
    const flow = flows.getStore()
    if (!flow) return
    flow.elapsedMs += ms
    for (const timer of [...flow.timers]) {
      if (timer.atMs > flow.elapsedMs) continue
      flow.timers.delete(timer)
      timer.ring()
    }
  }

  async function stall(): Promise<void> {
    const flow = flows.getStore()
    spend(maxPatienceMs)
    if (flow) flow.hanging++
    await untilReleased()
    if (flow && --flow.hanging === 0) flow.waits = 0
    if (flow) requireAlive(flow)
  }

  async function untilReleased(): Promise<void> {
    activity.leave()
    stalled.push(activity.enter)
    await new Promise<void>((resolve) => stalled.push(resolve))
  }

  /** A wait takes no time, so who asks again and again whether its own hanging call has ended would never come to rest. */
  async function wait(ms: number): Promise<void> {
    spend(ms)
    const flow = flows.getStore()
    if (!flow || flow.hanging === 0 || ++flow.waits < mostWaits) return
    activity.enter()
    try {
      await untilReleased()
    } finally {
      activity.leave()
    }
    requireAlive(flow)
  }

  /** True once it has ended, false when it waits for a lock. */
  async function goesThrough(ended: Settled<unknown>, process: Process): Promise<boolean> {
    for (let turns = 0; !ended.is; turns++) {
      await (turns < 20 ? turn() : Promise.race([ended.end, realPause(1)]))
      if (turns > 22 && process.busy && (await events.isBlocked(process))) return ended.is
    }
    return true
  }

  async function during<T>(call: () => Promise<T>): Promise<T> {
    activity.enter()
    try {
      return await call()
    } finally {
      activity.leave()
    }
  }

  return {
    at,
    spend,
    wait,
    during,
    stall,
    releaseStalled() {
      const count = stalled.length / 2
      for (const wake of stalled.splice(0)) wake()
      return count
    },
    async run(process, work) {
      const flow = newFlow(process)
      const ended = settled(flows.run(flow, work), flow.life)
      await activity.quiet(() => ended.is || stalled.length > 0 || flow.life.dead)
      return outcomeOf(flow, ended)
    },
    async race(first, second, cutAt) {
      const flow = newFlow(first.process)
      const rival = newFlow(second.process)
      const begin = once(() => settled(flows.run(rival, second.work), rival.life))
      flow.cut = {
        at: cutAt,
        async rival() {
          if (!(await goesThrough(begin(), second.process))) flow.rival = begin().end
        },
      }
      const ended = settled(flows.run(flow, first.work), flow.life)
      await activity.quiet(() => ended.is || flow.life.dead)
      await flow.rival
      await activity.quiet(() => begin().is || rival.life.dead)
      return [outcomeOf(flow, ended), outcomeOf(rival, begin())]
    },
    poolOf: (process) => poolOf(process, { at, activity, beforeUse: events.beforeUse }),
  }
}

const maxPatienceMs = 60_000
const mostWaits = 10

function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined
  return () => {
    made ??= { value: make() }
    return made.value
  }
}

function requireAlive(flow: Flow): void {
  if (flow.life.dead) throw new Died()
}

function newFlow(process: Process): Flow {
  return {
    process,
    life: process.life,
    elapsedMs: 0,
    timers: new Set(),
    hanging: 0,
    waits: 0,
    statements: 0,
    cut: undefined,
    rival: undefined,
    exploded: false,
  }
}

function outcomeOf<T>(flow: Flow, ended: Settled<T>): Ran<T> {
  // Whoever was answered before the process died has their answer.
  if (ended.outcome && !ended.afterDeath) return { ...ended.outcome, exploded: flow.exploded }
  return { kind: flow.life.dead ? 'died' : 'stalled' }
}

type Settled<T> = {
  is: boolean
  /** Resolves when it has ended, well or not. */
  end: Promise<void>
  outcome: { kind: 'done'; value: T } | { kind: 'failed'; error: unknown } | undefined
  afterDeath: boolean
}

function settled<T>(promise: Promise<T>, life: Life): Settled<T> {
  const state: Settled<T> = { is: false, end: Promise.resolve(), outcome: undefined, afterDeath: false }
  const settle = (outcome: Settled<T>['outcome']) => {
    Object.assign(state, { is: true, outcome, afterDeath: life.dead })
  }
  state.end = promise.then(
    (value) => settle({ kind: 'done', value }),
    (error) => settle({ kind: 'failed', error }),
  )
  return state
}

type Activity = {
  enter(): void
  leave(): void
  /** Resolves once nothing moves any more. Throws if something should and does not. */
  quiet(isEnded: () => boolean): Promise<void>
}

/** Counts calls that are under way, so that "everything has ended" can be waited for without a clock. */
function openActivity(): Activity {
  let active = 0
  let wake: (() => void) | undefined

  /** A call that never ends is one that waits for its own process: for a second connection while it holds the first. */
  const woken = () =>
    new Promise<void>((resolve, reject) => {
      const late = realTimeout(() => reject(new Error('A call waits for itself.')), 30_000)
      wake = () => {
        clearRealTimeout(late)
        resolve()
      }
    })

  return {
    enter() {
      active++
    },
    leave() {
      active--
      if (active === 0) wake?.()
    },
    async quiet(isEnded) {
      for (let turns = 0; turns < 4; turns++) {
        if (active > 0) {
          await woken()
          turns = 0
        }
        await turn()
        if (active > 0) turns = 0
      }
      // Plain work of the framework may still take a few turns.
      for (let turns = 0; !isEnded(); turns++) {
        if (turns === 500) throw new Error('A flow neither ends nor waits for anything.')
        await turn()
        if (active > 0) return this.quiet(isEnded)
      }
    },
  }
}

const immediate = setImmediate
const realTimeout = setTimeout
const clearRealTimeout = clearTimeout

function turn(): Promise<void> {
  return new Promise((resolve) => immediate(resolve))
}

/** Real waiting, for the few places that wait for another program. */
function realPause(ms: number): Promise<void> {
  return new Promise((resolve) => realTimeout(resolve, ms))
}

type PoolNeeds = Pick<BoundaryEvents, 'beforeUse'> & { at: Boundaries['at']; activity: Activity }

type Query = string | { text: string; values?: unknown[] }

function poolOf(process: Process, { at, activity, beforeUse }: PoolNeeds): pg.Pool {
  /** Waits for the process's connection, first come first served. */
  async function acquire(life: Life): Promise<void> {
    if (life.dead) throw new Died()
    if (!life.held) {
      life.held = true
      await beforeUse(process)
      return
    }
    await new Promise<void>((resolve, reject) => life.waiting.push({ resolve, reject }))
  }

  function release(life: Life): void {
    const next = life.waiting.shift()
    if (next) next.resolve()
    else life.held = false
  }

  async function send(flow: Flow | undefined, query: Query, values: unknown[] | undefined): Promise<unknown> {
    process.busy = true
    try {
      return await (typeof query === 'string'
        ? process.connection.query(query, values)
        : process.connection.query(query as pg.QueryConfig))
    } finally {
      process.busy = false
      if (flow) requireAlive(flow)
    }
  }

  function openClient(life: Life) {
    let inTransaction = false
    return {
      async query(query: Query, values?: unknown[]): Promise<unknown> {
        const flow = flows.getStore()
        const kind = kindOf(typeof query === 'string' ? query : query.text)
        activity.enter()
        try {
          if (life.dead) throw new Died()
          if (flow?.cut && ++flow.statements === flow.cut.at) await flow.cut.rival()
          if (life.dead) throw new Died()
          const commits = kind === 'commit' || (kind === 'write' && !inTransaction)
          if (commits) await at('before commit')
          else if (kind === 'read' || kind === 'write') await at('before statement')
          if (kind === 'begin') inTransaction = true
          const result = await send(flow, query, values)
          if (kind === 'commit' || kind === 'rollback') {
            inTransaction = false
            await flow?.rival
          }
          if (commits) await at('after commit')
          return result
        } finally {
          activity.leave()
        }
      },
      release() {
        if (!life.dead) release(life)
      },
    }
  }

  const connect = async () => {
    const life = flows.getStore()?.life ?? process.life
    activity.enter()
    try {
      await acquire(life)
    } finally {
      activity.leave()
    }
    return openClient(life)
  }

  return {
    connect,
    async query(query: Query, values?: unknown[]) {
      const client = await connect()
      try {
        return await client.query(query, values)
      } finally {
        client.release()
      }
    },
    on() {},
    async end() {},
  } as unknown as pg.Pool
}

function kindOf(text: string): 'begin' | 'commit' | 'rollback' | 'read' | 'write' {
  const word = /^\s*(\w+)/.exec(text)?.[1]?.toLowerCase()
  if (word === 'begin' || word === 'start') return 'begin'
  if (word === 'commit' || word === 'rollback') return word
  return word === 'select' ? 'read' : 'write'
}

/**
 * Gives the service's timers to the flows they belong to: a wait takes no time, and "at most so long" rings when the
 * flow has spent it. Timers of anyone else stay as they are.
 */
export function installFlowTimers(boundaries: () => Boundaries): () => void {
  const plain = {
    sleep: timersPromises.setTimeout,
    setTimeout: globalThis.setTimeout,
    clearTimeout: globalThis.clearTimeout,
  }
  const sleep = async (ms?: number, value?: unknown, options?: object) => {
    if (!flows.getStore()) return plain.sleep(ms, value, options)
    // Waiting in line is worth the same as the line's whole length: who waits ten seconds may wait them at once.
    await boundaries().wait(Math.max(ms ?? 0, 5_000))
    return value
  }
  timersPromises.setTimeout = sleep as typeof timersPromises.setTimeout
  globalThis.setTimeout = ((ring: (...given: unknown[]) => void, ms?: number, ...given: unknown[]) => {
    const flow = flows.getStore()
    if (!flow) return plain.setTimeout(() => ring(...given), ms)
    const timer: Timer = { atMs: flow.elapsedMs + (ms ?? 0), ring }
    flow.timers.add(timer)
    return timer
  }) as unknown as typeof globalThis.setTimeout
  globalThis.clearTimeout = ((timer: NodeJS.Timeout | Timer | undefined) => {
    const flow = flows.getStore()
    if (flow?.timers.delete(timer as Timer)) return
    plain.clearTimeout(timer as NodeJS.Timeout)
  }) as typeof globalThis.clearTimeout
  syncBuiltinESMExports()

  return () => {
    timersPromises.setTimeout = plain.sleep
    globalThis.setTimeout = plain.setTimeout
    globalThis.clearTimeout = plain.clearTimeout
    syncBuiltinESMExports()
  }
}
