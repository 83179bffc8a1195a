import type { Random } from '../simulation/random.ts'
import { until } from './database.ts'
import { openDeck } from './deck.ts'
import type { Fleet } from './fleet.ts'
import type { Member, Role } from './member.ts'

export type Victim = Role | 'postmaster'

/** How long a role was away after a kill. */
export type Recovery = { readonly victim: Victim; readonly ms: number }

/** Real times between which the database was killed and came back. */
export type Outage = { readonly from: number; to: number }

export type Kills = {
  readonly recoveries: readonly Recovery[]
  readonly outages: readonly Outage[]
  /** Those that run and that nobody troubles. */
  free(members: readonly Member[]): Member[]
  /** Nobody else troubles this process meanwhile. */
  alone(member: Member, act: () => Promise<void>): Promise<void>
  /** Kills somebody as soon as enough others are well. Does not wait until they are back. */
  killNext(isOver: () => boolean): Promise<void>
  allBack(): Promise<void>
}

/** Who is killed how often in proportion to the others. */
const victims: readonly Victim[] = ['postmaster', 'serve', 'serve', 'work', 'work', 'sandbox']

/** So many are down at once at most: the rest is to be under load, also on a slow machine. */
const mostDown = 2

/** kill -9, of any process of the installation and of the postmaster. */
export function openKills(
  fleet: Fleet,
  random: Random,
  { onKill, onFailure }: { onKill: (victim: Victim) => void; onFailure: (error: Error) => void },
): Kills {
  const deck = openDeck(random, victims)
  const busy = new Set<Member>()
  const down = new Map<Promise<void>, Victim>()
  const recoveries: Recovery[] = []
  const outages: Outage[] = []

  const free = (members: readonly Member[]) => members.filter((member) => member.isUp() && !busy.has(member))
  const alone = async (member: Member, act: () => Promise<void>) => {
    busy.add(member)
    await act().finally(() => busy.delete(member))
  }
  const candidatesOf = (role: Victim) => free(fleet.members.filter((member) => member.role === role))
  const mayDie = (victim: Victim) =>
    victim === 'postmaster' ? ![...down.values()].includes(victim) : candidatesOf(victim).length > 0

  const killPostmaster = async () => {
    const outage: Outage = { from: Date.now(), to: Number.POSITIVE_INFINITY }
    outages.push(outage)
    await fleet.database.kill()
    outage.to = Date.now()
    await until(fleet.isServing)
  }
  const kill = async (victim: Victim) => {
    onKill(victim)
    const startedAt = performance.now()
    if (victim === 'postmaster') await killPostmaster()
    else {
      const member = random.pick(candidatesOf(victim))
      await alone(member, member.kill)
    }
    recoveries.push({ victim, ms: performance.now() - startedAt })
  }

  return {
    recoveries,
    outages,
    free,
    alone,
    async killNext(isOver) {
      await until(async () => isOver() || down.size < mostDown, Number.POSITIVE_INFINITY)
      const victim = isOver() ? undefined : deck.draw(mayDie)
      if (victim === undefined) return
      const dying = kill(victim)
        .catch(onFailure)
        .finally(() => down.delete(dying))
      down.set(dying, victim)
    },
    async allBack() {
      await Promise.all(down.keys())
    },
  }
}
