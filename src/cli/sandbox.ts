import { setTimeout as sleep } from 'node:timers/promises'
import { type Config, loadConfig } from '../config.ts'
import { openFoundation } from '../foundation.ts'
import { keepWebhookSecret } from '../keys.ts'
import { isLoopback, urlOnThisMachine } from '../platform/loopback.ts'
import { untilAskedToStop } from '../platform/shutdown.ts'
import { openSandbox } from '../sandbox/sandbox.ts'
import { readSecretKey } from '../sandbox/secret-key.ts'
import { openSourceSandbox, type SourceWire } from '../sandbox/sources/source-sandbox.ts'
import { sourceWires } from '../sandbox/sources/source-wires.ts'
import { sandboxWire, type Wire } from '../sandbox/wire.ts'
import { wires } from '../sandbox/wires.ts'
import { openLog, type ServiceLog } from '../service-log.ts'
import { type Command, CommandFailed, parseOnlyFlags, UsageError, underGuard } from './command.ts'

export const sandbox: Command = {
  summary: 'Run the sandbox payment provider on its own',
  usage: `rankledger sandbox [--as PROVIDER] [--port N] [--webhook-url URL] [--host ADDRESS] [--json]

Listens on --port, by default SANDBOX_PORT, and keeps its book in the database. Point the service to it with PROVIDER_BASE_URL. Its
notifications go to --webhook-url, by default http://HOST:PORT/api/billing/webhook. It listens on this machine only, unless
--host names another address; it then warns, in its log, who may use it from there. It is opened by PROVIDER_SECRET_KEY, if
that is set, and by the key in its database, which every process of the same database finds by itself. What it says is lines
of JSON, with --json or without. --as has it speak another provider's language: ${wires.map(({ name }) => name).join(', ')}.

It also plays the sources of ranks and volumes, over a made-up web and without a database: --as ${sourceWires.map(({ name }) => name).join(', ')}.
Point the service to one with its variable, such as SERPAPI_BASE_URL; --calls-per-second says what it takes at most. What it
counted is told by GET /__sandbox/book, and POST /__sandbox/faults has it fail.`,

  async run(args) {
    const { values } = parseOnlyFlags(args, {
      as: { type: 'string', default: 'sandbox' },
      port: { type: 'string' },
      'webhook-url': { type: 'string' },
      host: { type: 'string', default: '127.0.0.1' },
      json: { type: 'boolean', default: false },
      'calls-per-second': { type: 'string', default: '1000' },
    })
    const wire = wires.find(({ name }) => name === values.as)
    const sourceWire = sourceWires.find(({ name }) => name === values.as)
    if (!wire && !sourceWire)
      throw new UsageError(
        `--as takes one of ${[...wires, ...sourceWires].map(({ name }) => name).join(', ')}.`,
      )
    // Node takes an empty address for every address there is.
    if (values.host.trim() === '') throw new UsageError('--host takes an address.')
    const port = values.port === undefined ? undefined : Number(values.port)
    if (port !== undefined && !(Number.isInteger(port) && port >= 0 && port < 65_536))
      throw new UsageError('--port takes a number from 0 to 65535.')
    const callsPerSecond = Number(values['calls-per-second'])
    if (!(callsPerSecond > 0)) throw new UsageError('--calls-per-second takes a number above 0.')
    const config = loadConfig()
    if (config.mode === 'live')
      throw new CommandFailed('The sandbox provider takes no real money and refuses MODE=live.')
    const stopSignal = untilAskedToStop()
    if (!wire)
      return playSource(
        sourceWire!,
        { port: port ?? 0, host: values.host, callsPerSecond },
        openLog(config).log,
        stopSignal,
      )
    return underGuard(config, {}, async () => {
      const { log, secrets, pool, clock, close } = await openFoundation(config, {
        name: 'sandbox',
        role: 'command',
        keepAlive: true,
      })
      try {
        const signing = signingSecretsOf(config, wire)
        const key = await readSecretKey(pool)
        for (const secret of [key, ...signing]) secrets.add(secret)
        const provider = await openSandbox({
          pool,
          clock,
          wire,
          port: port ?? config.sandboxPort,
          host: values.host,
          keys: [key, config.provider.secretKey].filter((one) => one !== undefined),
          webhook: {
            url: values['webhook-url'] ?? `${urlOnThisMachine(config.host, config.port)}/api/billing/webhook`,
            secrets: () => signing,
          },
          onError: (error) => log.warn('sandbox.failed', { error }),
        })
        log.info('service.started', {
          mode: 'sandbox',
          port: Number(new URL(provider.url).port),
          worker: false,
        })
        warnIfExposed(log, values.host, wire === sandboxWire ? 'its_key' : 'any_credentials')
        log.info('service.stopping', { signal: await stopSignal })
        await Promise.race([provider.close(), sleep(15_000, undefined, { ref: false })])
        return 0
      } finally {
        await close()
      }
    })
  },
}

/** As the service has them, which is to believe what they sign. */
function signingSecretsOf(config: Config, { unsigned }: Wire): readonly string[] {
  if (unsigned) return []
  const { webhookSecrets } = config.provider
  return webhookSecrets.length > 0 ? webhookSecrets : [keepWebhookSecret(config)]
}

/** Plays a source: it has no book but its count, so it needs no database. */
async function playSource(
  wire: SourceWire,
  options: { port: number; host: string; callsPerSecond: number },
  log: ServiceLog,
  stopSignal: Promise<string>,
): Promise<number> {
  const source = await openSourceSandbox({ wire, ...options })
  log.info('service.started', { mode: 'sandbox', port: Number(new URL(source.url).port), worker: false })
  warnIfExposed(log, options.host, 'any_credentials')
  log.info('service.stopping', { signal: await stopSignal })
  await source.close()
  return 0
}

/** Whoever it opens to can also turn its clock and have it fail, which is nothing for a network of strangers. */
function warnIfExposed(log: ServiceLog, host: string, opensTo: 'its_key' | 'any_credentials'): void {
  if (!isLoopback(host)) log.warn('sandbox.exposed', { host, opens_to: opensTo })
}
