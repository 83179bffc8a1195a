import { setTimeout } from 'node:timers/promises'
import type { Faults } from '../../src/sandbox/faults.ts'
import { type Random, seededRandom } from '../simulation/random.ts'
import { until } from './database.ts'
import { openDeck } from './deck.ts'
import { type Fleet, linkNames } from './fleet.ts'
import { type Kills, type Outage, openKills, type Recovery } from './kills.ts'
import type { ChaosProvider } from './provider.ts'
import { linkFaults } from './proxy.ts'
import { askStaff, deedsAt, openStaff } from './staff.ts'

export type Troubles = {
  readonly counts: Readonly<Record<string, number>>
  readonly recoveries: readonly Recovery[]
  readonly outages: readonly Outage[]
  /** What did not come back, or could not be done. */
  readonly failures: readonly string[]
  kills(victim: 'application' | 'postmaster'): number
  /** No new trouble; resolves when the present ones are over and everything runs. */
  stop(): Promise<void>
}

/** What the provider can be told to do wrong, and how the run calls it. */
const illnesses: Readonly<Record<string, Faults>> = {
  'provider answers 500 after it took the money': { error_after_rate: 0.6 },
  'provider takes the money and does not answer': { timeout_after_rate: 0.6 },
  'provider fails before it takes the money': { error_before_rate: 0.6 },
  'provider does nothing and does not answer': { timeout_before_rate: 0.6 },
  'provider names another amount': { wrong_amount_rate: 0.6 },
  'provider answers garbage': { garbage_rate: 0.6 },
  'provider finds nothing': { lookup_error_rate: 0.7, timeout_after_rate: 0.3 },
  'provider is slow': { slow_ms: 1_500 },
  'provider is down': { down: true },
  'provider resets connections': { down: 'reset' },
  'webhooks come twice': { webhook_duplicate_rate: 0.8 },
  'webhooks are lost': { webhook_drop_rate: 0.8 },
  'webhooks come in another order': { webhook_reorder_rate: 0.6, webhook_duplicate_rate: 0.3 },
}

const linkKinds = linkNames.flatMap((name) => linkFaults.map((fault) => ({ name, fault })))

/** Every kind of trouble with this provider. A run in which one of them never came proves nothing about it. */
export const kindsWith = (provider: ChaosProvider): string[] => [
  'kill serve',
  'kill work',
  'kill sandbox',
  'kill postmaster',
  'worker sleeps through its lease',
  'rolling restart',
  ...linkKinds.map(({ name, fault }) => `${name} link ${fault}`),
  ...Object.keys(illnesses),
  ...deedsAt(provider),
]

/** Longer than the ten seconds after which a worker is taken for dead. */
const sleepMs = 12_500

export type Pace = {
  /** Between two kills, about. */
  readonly killEveryMs: number
  /** How long a link or the provider is ill. */
  readonly illMs: number
}

/** Lets things go wrong at a steady pace, in an order that the seed decides, every kind before any comes again. */
export function startTroubles(fleet: Fleet, seed: number, pace: Pace): Troubles {
  const counts: Record<string, number> = {}
  const failures: string[] = []
  const halt = new AbortController()
  const scene: Scene = {
    fleet,
    count(kind) {
      counts[kind] = (counts[kind] ?? 0) + 1
    },
    isOver: () => halt.signal.aborted,
    rest: (ms) => setTimeout(ms, undefined, { signal: halt.signal }).catch(() => {}),
  }
  const onFailure = (error: Error) => void failures.push(error.stack ?? error.message)
  const dice = (lane: number) => seededRandom(seed * 1_000 + lane)
  const kills = openKills(fleet, dice(0), { onKill: (victim) => scene.count(`kill ${victim}`), onFailure })

  /** Troubles of one sort, one after another; the sorts overlap. */
  const lanes = [
    killing(scene, kills, dice(1), pace.killEveryMs),
    sickening(scene, dice(2), pace.illMs),
    infecting(scene, dice(3), pace.illMs),
    restarting(scene, kills, dice(4)),
    meddling(scene, dice(5)),
  ].map(async (act) => {
    while (!scene.isOver()) await act().catch(onFailure)
  })

  return {
    counts,
    recoveries: kills.recoveries,
    outages: kills.outages,
    failures,
    kills(victim) {
      const roles = victim === 'postmaster' ? [victim] : ['serve', 'work', 'sandbox']
      return roles.reduce((sum, role) => sum + (counts[`kill ${role}`] ?? 0), 0)
    },
    async stop() {
      halt.abort()
      await Promise.all(lanes)
      await kills.allBack()
      for (const { proxy } of fleet.links) proxy.heal()
      await until(() => setFaults(fleet, {}))
      await until(async () => (await Promise.all(fleet.members.map((one) => one.isReady()))).every(Boolean))
    },
  }
}

type Scene = {
  readonly fleet: Fleet
  count(kind: string): void
  isOver(): boolean
  /** Waits so long, or until it is over. */
  rest(ms: number): Promise<void>
}

/** One trouble from its beginning to its end. */
type Act = () => Promise<void>

function killing(scene: Scene, kills: Kills, random: Random, everyMs: number): Act {
  return async () => {
    await kills.killNext(scene.isOver)
    await scene.rest(everyMs * (0.6 + 0.8 * random.next()))
  }
}

/** A link between two processes misbehaves for a while. */
function sickening({ fleet, count, rest }: Scene, random: Random, illMs: number): Act {
  const deck = openDeck(random, linkKinds)
  return async () => {
    const { name, fault } = deck.draw()!
    const { proxy } = random.pick(fleet.links.filter((link) => link.name === name))
    count(`${name} link ${fault}`)
    proxy.suffer(fault)
    await rest(illMs * (0.5 + random.next()))
    proxy.heal()
    await rest(300)
  }
}

/** The provider misbehaves for a while. */
function infecting({ fleet, count, rest }: Scene, random: Random, illMs: number): Act {
  const deck = openDeck(random, Object.keys(illnesses))
  return async () => {
    const illness = deck.draw()!
    const faults = { ...illnesses[illness]!, seed: random.between(1, 1_000_000) }
    await until(() => setFaults(fleet, faults))
    count(illness)
    await rest(illMs * (0.5 + random.next()))
    await until(() => setFaults(fleet, {}))
    await rest(1_000)
  }
}

/** Workers that hang and come back, and serves that are replaced one after the other. */
function restarting({ fleet, count, rest, isOver }: Scene, kills: Kills, random: Random): Act {
  const sleep = async () => {
    const [member] = random.shuffled(kills.free(fleet.works))
    if (!member) return
    count('worker sleeps through its lease')
    await kills.alone(member, async () => {
      member.freeze()
      await setTimeout(sleepMs)
      member.thaw()
    })
  }
  const roll = async () => {
    count('rolling restart')
    for (const serve of fleet.serves) {
      await until(async () => kills.free([serve]).length > 0)
      await kills.alone(serve, serve.replace)
    }
  }
  const deck = openDeck(random, [sleep, roll])
  return async () => {
    await rest(random.between(2_000, 8_000))
    if (!isOver()) await deck.draw()!()
  }
}

/** Money goes back, is disputed or is confirmed at the provider, and nobody asks us. */
function meddling({ fleet, count, rest }: Scene, random: Random): Act {
  const staff = openStaff(fleet, random)
  return async () => {
    await rest(random.between(500, 2_000))
    // While the database is away nobody there can do anything either.
    const deed = await staff.act().catch(() => undefined)
    if (deed !== undefined) count(deed)
  }
}

/** Tells the provider how to behave, at its own door. False: it is not there just now. */
async function setFaults(fleet: Fleet, faults: Faults): Promise<boolean> {
  return (await askStaff(fleet, { path: '/admin/faults', body: faults })) === 200
}
