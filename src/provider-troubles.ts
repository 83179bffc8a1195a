import type { BillingDb } from './billing/app.ts'
import { stopCharging, stopForCredentials } from './billing/charging-stop.ts'
import { raiseAlarm } from './platform/alarm.ts'
import type { Clock } from './platform/clock.ts'

/** What follows when an answer shows that this process is set up wrong. */
export type ProviderTroubles = {
  /** The provider refuses our key. */
  onRefused(provider: string): Promise<void>
  /** It shows real money in a sandbox. */
  onLive(provider: string): Promise<void>
  /** It is needed, and its key is not set. */
  onMissing(provider: string): Promise<void>
  /** What an answer about real money is to a sandbox: about none of its payments, or no answer at all. */
  readonly liveIs: 'mismatch' | 'unknown'
  /** A sentence for each trouble that only whoever started this process can put right. */
  sentences(): readonly string[]
}

const alarmEveryMs = 60_000

/** The environment of a service is that of every charge: charging stops, or an alarm tells what waits. */
export function openTroublesOfService(db: BillingDb, clock: Clock): ProviderTroubles {
  const raisedAt = new Map<string, number>()
  return {
    onRefused: (provider) => stopForCredentials(db, provider, clock()),
    onLive: () => stopCharging(db, 'live_answer', clock()),
    async onMissing(provider) {
      // Once a minute is enough.
      if (performance.now() - (raisedAt.get(provider) ?? Number.NEGATIVE_INFINITY) < alarmEveryMs) return
      raisedAt.set(provider, performance.now())
      const note = `Payment methods and payments are stored at ${provider}, and its keys are not set: what is due there waits. Set them as docs/providers.md says, and restart.`
      await raiseAlarm(db, { kind: 'provider_missing', subject: provider, note }, clock())
    },
    liveIs: 'mismatch',
    sentences: () => [],
  }
}

/**
 * A command has the environment of a shell or a cron job, and the service's own may well be right: one forgotten key there must
 * not keep every renewal waiting. So nobody is stopped, and what it could not learn stays open for the service.
 */
export function openTroublesOfCommand(): ProviderTroubles {
  const sentences = new Set<string>()
  const goesOn =
    'The service and its charging go on; correct the environment of this command, and run it again.'
  return {
    async onRefused(provider) {
      sentences.add(`${provider} refuses the key in the environment of this command. ${goesOn}`)
    },
    async onLive(provider) {
      sentences.add(
        `${provider} shows payments of real money to this command, whose environment lacks MODE=live or holds a live key. ${goesOn}`,
      )
    },
    async onMissing(provider) {
      sentences.add(`No key of ${provider} is set in the environment of this command. ${goesOn}`)
    },
    liveIs: 'unknown',
    sentences: () => [...sentences],
  }
}
