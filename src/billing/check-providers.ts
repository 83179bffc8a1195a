import type { BillingApp } from './app.ts'
import { liftCredentialStop } from './charging-stop.ts'
import { countByProvider } from './payments/payment-method-rows.ts'
import type { Provider, ProviderCheck } from './providers/port.ts'

export type CheckedProvider = {
  readonly provider: string
  readonly isForNew: boolean
  readonly lines: readonly ProviderCheck[]
  readonly ok: boolean
  /** Subscriptions that have not ended and whose payment method it holds. */
  readonly liveSubscriptions: number
  /** Charging through it had been stopped because it refused our credentials, and goes on now. */
  readonly resumed: boolean
}

/**
 * Asks every provider harmless questions: those whose keys are set, and those that still hold payment methods in use. One that
 * passes is charged through again, should refused credentials have stopped that.
 */
export async function checkProviders(app: BillingApp): Promise<CheckedProvider[]> {
  const checked: CheckedProvider[] = []
  const live = await countByProvider(app.db)
  for (const provider of listNeeded(app, live)) {
    const lines = [...(await provider.check(app.clock()))]
    if (isKnown(app, provider) && !lines.some(({ subject }) => subject === 'webhook_secret'))
      lines.push(secretLine(app, provider))
    const ok = lines.every((line) => line.ok)
    checked.push({
      provider: provider.name,
      isForNew: provider === app.providers.forNew,
      lines,
      ok,
      liveSubscriptions: live.get(provider.name) ?? 0,
      resumed: ok && (await liftCredentialStop(app, provider.name)),
    })
  }
  return checked
}

function listNeeded({ providers }: BillingApp, live: ReadonlyMap<string, number>): Provider[] {
  const names = new Set([...providers.all.map(({ name }) => name), ...live.keys()])
  return [...names].map((name) => providers.named(name))
}

function isKnown({ providers }: BillingApp, provider: Provider): boolean {
  return providers.all.includes(provider)
}

const shortestSecret = 24

/** What can be said of the secrets without a notification; the first that arrives says the rest. */
function secretLine({ terms }: BillingApp, { name, guards }: Provider): ProviderCheck {
  const secrets = terms.webhookSecrets[name] ?? []
  const subject = 'webhook_secret'
  if (guards.signsNothing) {
    const message = terms.hintSecret
      ? `HINT_SECRET is set; register the hints route with it in the console of ${name}, which signs nothing.`
      : `HINT_SECRET is not set, so the hints route is off and no message of ${name} is taken; lookups and reconcile find out instead.`
    return { subject, ok: true, message }
  }
  if (secrets.length === 0)
    return {
      subject,
      ok: false,
      message: `No webhook secret of ${name} is set, so its notifications are refused.`,
    }
  const isLong = secrets.every((secret) => secret.length >= shortestSecret)
  return {
    subject,
    ok: isLong,
    message: isLong
      ? `${secrets.length} set, of at least ${shortestSecret} characters.`
      : `A webhook secret of ${name} has fewer than ${shortestSecret} characters; make a longer one.`,
  }
}
