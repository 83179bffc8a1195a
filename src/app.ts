import { openBatchMetrics } from './batch/metrics.ts'
import type { BillingApp, BillingTerms } from './billing/app.ts'
import { findChargingStop } from './billing/charging-stop-rows.ts'
import { keepLogo, logoHash } from './billing/invoices/logo-rows.ts'
import { openBillingMetrics } from './billing/metrics.ts'
import {
  guardProvider,
  type ProviderGuard,
  type ProviderUse,
  providerUses,
} from './billing/providers/guarded-provider.ts'
import { measuredProvider } from './billing/providers/measured-provider.ts'
import { oneModeProvider } from './billing/providers/one-mode-provider.ts'
import type { Provider } from './billing/providers/port.ts'
import { providersOf } from './billing/providers/providers.ts'
import { buildAdapter } from './billing/providers/registry.ts'
import { openStopSwitch, stoppableProvider } from './billing/providers/stoppable-provider.ts'
import type { Seller } from './billing/seller.ts'
import type { Config } from './config.ts'
import { type Foundation, type FoundationOptions, openFoundation } from './foundation.ts'
import { keepWebhookSecret, openKeys } from './keys.ts'
import { type Access, openAccess } from './platform/access/access.ts'
import { openRateLimiter, type RateLimiter } from './platform/access/rate-limit.ts'
import { clearAlarm } from './platform/alarm.ts'
import { writeSecret } from './platform/data-dir.ts'
import { type DatabaseHealth, openDatabaseHealth } from './platform/database/database-health.ts'
import { openDb, openPool } from './platform/database/db.ts'
import { openReplica, type Replica } from './platform/database/replica.ts'
import { isUrlOfLoopback } from './platform/loopback.ts'
import { openMetrics } from './platform/metrics.ts'
import { openTroublesOfCommand, openTroublesOfService, type ProviderTroubles } from './provider-troubles.ts'
import { type Notifier, openNotifier } from './sandbox/notifier.ts'
import { openSandbox, type Sandbox } from './sandbox/sandbox.ts'
import { readSecretKey } from './sandbox/secret-key.ts'
import { signsMessages } from './settings/provider-settings.ts'

/** A process of the service: everything it holds open, and both areas built on it. */
export type App = Foundation & {
  readonly metrics: AllMetrics
  readonly health: DatabaseHealth
  /** Absent without DATABASE_URL_READ, and in commands. */
  readonly replica: Replica | undefined
  readonly access: Access
  readonly limiter: RateLimiter
  /** Where the provider of new payment methods can be told what to do: the sandbox, or a simulator on this machine. */
  readonly sandboxUrl: string | undefined
  /** The secret key that opens it. */
  readonly sandboxKey: string | undefined
  readonly billing: BillingApp
  /** Billing as each use sees it: the same but for its places at the provider. */
  readonly billingFor: Readonly<Record<ProviderUse, BillingApp>>
  /** The way to end with all providers. */
  readonly providerGuard: Pick<ProviderGuard, 'windDown' | 'shut' | 'idle'>
  /** What providers had against the environment of a command, sentence by sentence; a service stops charging instead. */
  troubles(): readonly string[]
}

/** Opens all that a service needs, and those commands that open sealed values or ask a provider. */
export type AppOptions = Omit<FoundationOptions, 'onRestart'> & {
  /** Of the processes on a machine one can have `SANDBOX_PORT`; a sandbox in any other listens where there is room. */
  takesSandboxPort?: boolean
}

export async function openApp(config: Config, options: AppOptions): Promise<App> {
  const metrics = openAllMetrics()
  const onRestart = () => metrics.databaseRestarts.inc()
  const foundation = await openFoundation(config, { ...options, onRestart })
  try {
    return await openOn(foundation, metrics, options)
  } catch (error) {
    await foundation.close()
    throw error
  }
}

export type AllMetrics = ReturnType<typeof openAllMetrics>

function openAllMetrics() {
  const platform = openMetrics()
  return {
    ...platform,
    ...openBillingMetrics(platform.registry),
    ...openBatchMetrics(platform.registry),
  }
}

async function openOn(foundation: Foundation, metrics: AllMetrics, options: AppOptions): Promise<App> {
  const isService = options.role === 'service'
  const { config, secrets, pool, clock, billing } = foundation
  const keys = await openKeys(foundation)
  const webhookSecrets = webhookSecretsOf(config, isService)
  for (const secret of Object.values(webhookSecrets).flat()) secrets.add(secret)
  const sandboxKey = await findSandboxKey(foundation)
  const sandboxPort = options.takesSandboxPort ? config.sandboxPort : 0
  const sandbox = await openOwnSandbox(foundation, sandboxPort, sandboxKey)
  const replica = isService ? openOwnReplica(foundation) : undefined
  try {
    const sandboxUrl = sandbox?.url ?? simulatorOf(config)
    const troubles = isService ? openTroublesOfService(billing.db, clock) : openTroublesOfCommand()
    const guards = await openProviders(config, sandboxUrl, sandboxKey, metrics, troubles)
    const stops = new Map(
      guards.map(({ name }) => [
        name,
        openStopSwitch({
          isStopped: async () => (await findChargingStop(billing.db, name)) !== undefined,
          onCredentialsRefused: () => troubles.onRefused(name),
        }),
      ]),
    )
    if (isService) {
      if (config.seller.logo) await keepLogo(billing.db, config.seller.logo)
      for (const { name } of guards) await clearAlarm(billing.db, 'provider_missing', name)
    }
    const shared = {
      ...billing,
      ...(replica && { replica: viewOf(replica) }),
      ...keys,
      terms: termsOf(config, webhookSecrets),
      onReconcileFault: (error: unknown, reference: string | null) =>
        foundation.log.error('reconcile.failed', { reference, error }),
    }
    const billingFor = Object.fromEntries(
      providerUses.map((use): [ProviderUse, BillingApp] => {
        const [forNew, ...others] = guards.map(({ name, guard }) =>
          stoppableProvider(guard.uses[use], stops.get(name)!),
        )
        return [use, { ...shared, providers: providersOf([forNew!, ...others], troubles.onMissing) }]
      }),
    ) as Record<ProviderUse, BillingApp>

    return {
      ...foundation,
      metrics,
      health: openDatabaseHealth(pool),
      replica,
      access: openAccess(pool, clock),
      limiter: openRateLimiter(pool),
      sandboxUrl,
      sandboxKey: config.provider.secretKey ?? sandboxKey,
      billing: billingFor.requests,
      billingFor,
      batch: { ...foundation.batch, ...(replica && { replica: viewOf(replica) }) },
      providerGuard: allOf(guards.map(({ guard }) => guard)),
      troubles: troubles.sentences,
      async close() {
        await sandbox?.close()
        await replica?.close()
        await foundation.close()
      },
    }
  } catch (error) {
    await sandbox?.close()
    await replica?.close()
    throw error
  }
}

/** The providers for whoever only looks at them: nothing is stored, and no answer stops anybody. */
export async function openProvidersToLook(
  foundation: Foundation,
): Promise<{ readonly all: readonly Provider[]; close(): Promise<void> }> {
  const { config } = foundation
  const key = await findSandboxKey(foundation)
  const sandbox = await openOwnSandbox(foundation, 0, key)
  const close = async () => sandbox?.close()
  try {
    const url = sandbox?.url ?? simulatorOf(config)
    const guards = await openProviders(config, url, key, openAllMetrics(), openTroublesOfCommand())
    return { all: guards.map(({ guard }) => guard.uses.requests), close }
  } catch (error) {
    await close()
    throw error
  }
}

/** With what the sandbox provider is asked, where it is the provider. */
async function findSandboxKey({ config, pool, secrets }: Foundation): Promise<string | undefined> {
  if (config.provider.name !== 'sandbox') return undefined
  const key = await readSecretKey(pool)
  secrets.add(key)
  return key
}

/** Not waited for: a replica that is away keeps no service from starting. */
function openOwnReplica({ config, database, pool: primary, log }: Foundation): Replica | undefined {
  if (config.databaseUrlRead === undefined) return undefined
  const pool = openPool({
    ...database.limits,
    url: config.databaseUrlRead,
    max: config.database.poolSize,
    name: 'rankledger read',
    onError: () => {},
  })
  const onState = (state: string) => log.info('database.replica', { state })
  return openReplica({ primary, pool, mostLagMs: config.database.readLagMs, onState })
}

function viewOf<Tables>({ pool }: Replica) {
  return { db: openDb<Tables>(pool), pool }
}

function simulatorOf({ mode, provider: { name, baseUrl } }: Config): string | undefined {
  if (mode !== 'sandbox' || baseUrl === undefined) return undefined
  const isNear = isUrlOfLoopback(baseUrl)
  return name === 'sandbox' || isNear ? baseUrl : undefined
}

/** Without a PROVIDER_BASE_URL the process brings the sandbox along; all of them share one book. */
async function openOwnSandbox(
  { config, pool, clock, log }: Foundation,
  port: number,
  key: string | undefined,
): Promise<Sandbox | undefined> {
  if (config.provider.name !== 'sandbox' || config.provider.baseUrl) return undefined
  return openSandbox({
    pool,
    clock,
    port,
    keys: [key, config.provider.secretKey].filter((one) => one !== undefined),
    // Only a process that knows where the API listens sends notifications; see `startNotifier`.
    webhook: { url: undefined, secrets: () => [] },
    onError: (error) => log.warn('sandbox.failed', { error }),
  })
}

/** Sends the sandbox's notifications to the API, from the process that answers it. */
export function startNotifier(app: App, apiUrl: string): Notifier | undefined {
  if (app.config.provider.name !== 'sandbox' || app.config.provider.baseUrl) return undefined
  return openNotifier({
    pool: app.pool,
    url: `${apiUrl}/api/billing/webhook`,
    secrets: () => app.billing.terms.webhookSecrets['sandbox'] ?? [],
    onError: (error) => app.log.warn('sandbox.failed', { error }),
  })
}

type NamedGuard = { readonly name: string; readonly guard: ProviderGuard }

/** Each provider behind a guard of its own: one that is silent takes no place of another's calls. */
async function openProviders(
  config: Config,
  sandboxUrl: string | undefined,
  sandboxKey: string | undefined,
  metrics: AllMetrics,
  troubles: ProviderTroubles,
): Promise<NamedGuard[]> {
  const { timeoutMs } = config.provider
  const opening = config.providers.map(async (settings) => {
    const reached =
      settings.name === 'sandbox'
        ? { ...settings, baseUrl: sandboxUrl, secretKey: settings.secretKey ?? sandboxKey }
        : settings
    const adapter = await buildAdapter({ ...reached, timeoutMs })
    const onLive = () => troubles.onLive(settings.name)
    const provider = oneModeProvider(adapter, config.mode, onLive, troubles.liveIs)
    return { name: settings.name, guard: guardOf(provider, timeoutMs, metrics) }
  })
  return Promise.all(opening)
}

function guardOf(provider: Provider, timeoutMs: number, metrics: AllMetrics): ProviderGuard {
  const { name } = provider
  const measured = measuredProvider(provider, (call, outcome, seconds) => {
    metrics.providerAnswers.inc({ provider: name, call, outcome })
    metrics.providerSeconds.observe({ provider: name, call }, seconds)
  })
  // Told from the start: without a first value nobody can tell a closed circuit from a number that is missing.
  metrics.providerCircuit.set({ provider: name }, 0)
  return guardProvider(measured, {
    timeoutMs: timeoutMs + 1_000,
    onState: (state) =>
      metrics.providerCircuit.set({ provider: name }, state === 'closed' ? 0 : state === 'half_open' ? 1 : 2),
    onLoad: ({ inFlight, waiting }) => {
      metrics.providerCalls.set({ provider: name, state: 'in_flight' }, inFlight)
      metrics.providerCalls.set({ provider: name, state: 'waiting' }, waiting)
    },
  })
}

function allOf(guards: readonly ProviderGuard[]): App['providerGuard'] {
  return {
    windDown: () => guards.forEach((guard) => void guard.windDown()),
    shut: () => guards.forEach((guard) => void guard.shut()),
    idle: async () => void (await Promise.all(guards.map((guard) => guard.idle()))),
  }
}

function termsOf(config: Config, webhookSecrets: BillingTerms['webhookSecrets']): BillingTerms {
  return {
    sandbox: config.mode === 'sandbox',
    timeZone: config.timeZone,
    seller: sellerOf(config),
    language: config.invoiceLanguage,
    cancelLeadSeconds: config.cancelLeadSeconds,
    dunningDays: config.dunningDays,
    disputePolicy: config.disputePolicy,
    catchUpPeriods: config.catchUpPeriods,
    answerWithinMs: config.answerWithinMs,
    providerTimeoutMs: config.provider.timeoutMs,
    webhookSecrets,
    hintSecret: config.hintSecret,
  }
}

function sellerOf({ seller }: Config): Seller {
  const { name, address, registration, taxId, logo } = seller
  return { name, address, registration, tax_id: taxId, logo: logo && logoHash(logo) }
}

/**
 * In sandbox mode the newest secret of the service also stands in the data dir, where tools that send test webhooks look for it.
 * That of a command is only its shell's.
 */
function webhookSecretsOf(config: Config, isService: boolean): BillingTerms['webhookSecrets'] {
  const given = Object.fromEntries(config.providers.map((one) => [one.name, one.webhookSecrets]))
  const { name, webhookSecrets } = config.provider
  if (webhookSecrets.length > 0) {
    if (config.mode === 'sandbox' && isService)
      writeSecret(config.dataDir, 'webhook-secret', webhookSecrets[0]!)
    return given
  }
  if (!signsMessages(name)) return given
  return { ...given, [name]: [keepWebhookSecret(config)] }
}
