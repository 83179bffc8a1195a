import type { DeathPlace } from './boundaries.ts'
import type { SimulatedWorld } from './simulated-world.ts'
import type { Service, Stage } from './stage.ts'
import { type Clients, send } from './workload.ts'

/** What a script may do. A deed in which the first process dies is taken up by the second one. */
export type Play = {
  readonly world: SimulatedWorld
  /** Asks with a key of its own. Undisturbed, it is answered with this status. */
  ask(path: string, body: object, status: number): Promise<void>
  /** Sweeps, and works the jobs that wait. */
  work(): Promise<void>
  /** The provider delivers every notification that was not taken yet. */
  deliver(): Promise<void>
  /** Service time goes to the next instant at which something falls due. */
  toNextDue(): Promise<void>
  /** The next such calls to the provider meet these faults. */
  plan(call: 'charge' | 'refund' | 'lookup' | 'describe' | 'exchange' | 'cancel', ...faults: string[]): void
  card(behaviour: 'ok' | 'once' | 'poor' | 'stolen' | 'nobody' | 'asks'): object
  /** A card that is given as a key for one use. */
  oneTimeCard(behaviour: 'ok'): object
  subscription(): Promise<string>
  invoice(): Promise<string>
}

export type Script = (play: Play) => Promise<void>

/** Which of the places that a script passes is the one to die at, counted from 1; none: all are only counted. */
export type Death = { readonly at: number | undefined; readonly places: DeathPlace[]; came: boolean }

const second = 1_000

export function openPlay(
  stage: Stage,
  world: SimulatedWorld,
  clients: Clients,
  death: Death,
  followedAfter: readonly number[] = [14, 30, 120],
): Play {
  const { random } = world
  const [one, two] = stage.services
  let names = 0

  /** Nobody dies in what the script itself looks at. */
  async function unharmed<T>(look: () => Promise<T>): Promise<T> {
    const { doom } = world
    world.doom = () => false
    try {
      return await look()
    } finally {
      world.doom = doom
    }
  }

  async function perform(deed: (service: Service) => Promise<unknown>): Promise<void> {
    const wasAlive = !death.came
    await deed(wasAlive ? one : two)
    if (!wasAlive || !death.came) return
    // Too early, whoever died still seems to be at it; after the lease, either a sweep or the caller comes first.
    if (random.chance(0.5)) await deed(two)
    world.pass(random.pick(followedAfter) * second)
    if (random.chance(0.5)) await workAll(two)
    await deed(two)
  }

  /** Whoever died does not go on. */
  const isGone = (service: Service) => service === one && death.came

  async function workAll(service: Service): Promise<void> {
    await world.do(world.sweeping(), service)
    if (!isGone(service)) await world.workJobs(service)
  }

  async function newest(table: 'subscription' | 'invoice'): Promise<string> {
    const { rows } = await world.observer.query<{ id: string }>(
      `select id from billing.${table} order by id desc limit 1`,
    )
    return rows[0]!.id
  }

  const cardText = (behaviour: string) => {
    const text = Array.from({ length: 12 }, () => random.pick([...'abcdefghjkmnpqrstvwxyz23456789'])).join('')
    clients.secrets.push(text)
    return `${text}_${behaviour}`
  }

  return {
    world,
    async ask(path, body, status) {
      const ask = { method: 'POST', path: `/api/billing${path}`, body, key: `key-${names++}` } as const
      await perform(async (service) => {
        const entry = await send(world, clients, ask, service)
        const undisturbed = death.at === undefined
        if (undisturbed && entry?.answer?.status !== status)
          throw new Error(
            `${path} was answered ${entry?.answer?.status} ${entry?.answer?.text}, not ${status}`,
          )
      })
    },
    work: () => perform(workAll),
    deliver: () =>
      perform(async (service) => {
        for (const notice of world.model.notices.filter(({ taken }) => !taken))
          if (!isGone(service)) await world.do(world.delivering(notice), service)
      }),
    async toNextDue() {
      const due = await unharmed(world.nextDue)
      if (due === undefined) throw new Error('Nothing falls due.')
      world.turnTo(due)
    },
    plan: (call, ...faults) => void world.planned.set(call, faults),
    card: (behaviour) => ({ billing_key: `bk_${cardText(behaviour)}` }),
    oneTimeCard: (behaviour) => ({ auth_key: `ak_${cardText(behaviour)}`, customer_key: 'customer_1' }),
    subscription: () => newest('subscription'),
    invoice: () => newest('invoice'),
  }
}
