import { statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import { type App, openApp } from '../app.ts'
import { findChargingStop } from '../billing/charging-stop-rows.ts'
import { type Config, ConfigError, loadConfig } from '../config.ts'
import { countAlarms } from '../platform/alarm.ts'
import { guardProcessOutput } from '../platform/log/guard-process-output.ts'
import { queueVitals } from '../platform/queue/queue.ts'
import { openLog } from '../service-log.ts'
import { type Command, parseOnlyFlags, print, printJson } from './command.ts'
import { statusOfDistribution } from './db-distribute.ts'
import { type Finding, lookAtDatabase, sentenceOf, type Tell } from './doctor-database.ts'

export const doctor: Command = {
  summary: 'Say what is wrong with this installation, line by line',
  usage: `rankledger doctor [--json]

Looks at the environment, the database connections, the replica, encoding, schema, rights, pooler, clock, disk, keys and the payment
provider, changes nothing, and exits 1 if anything is at fault.`,

  async run(args) {
    const { values } = parseOnlyFlags(args, { json: { type: 'boolean', default: false } })
    const findings: Finding[] = []
    const tell: Tell = (check, state, message) => {
      findings.push({ check, state, message })
      if (!values.json) print(`${state.padEnd(6)}${check.padEnd(14)}${message}`)
    }
    await examine(tell)
    const healthy = findings.every(({ state }) => state !== 'fault')
    if (values.json) printJson({ healthy, findings })
    return healthy ? 0 : 1
  },
}

async function examine(tell: Tell): Promise<void> {
  const config = readEnvironment(tell)
  if (!config) return
  const guard = guardProcessOutput(openLog(config, 'stderr').log, { stdout: 'results' })
  try {
    await lookAtDisk(config, tell)
    // Opening ends at the first trouble, and in sandbox mode makes the tables of an empty database: so only a fit one is opened.
    if (!(await lookAtDatabase(config, tell))) return
    const app = await openApp(config, { name: 'doctor', role: 'command', poolSize: 4 })
    try {
      tell(
        'keys',
        'ok',
        `VAULT_KEYS open what this database holds; ${config.provider.webhookSecrets.length || 1} webhook secrets`,
      )
      await lookAtService(app, tell)
    } finally {
      await app.close()
    }
  } catch (error) {
    const isKey = (error as Error).name === 'VaultKeysRefused'
    tell(isKey ? 'keys' : 'service', 'fault', sentenceOf(error))
  } finally {
    guard.uninstall()
  }
}

function readEnvironment(tell: Tell): Config | undefined {
  try {
    const config = { ...loadConfig(), logLevel: 'error' as const }
    tell(
      'environment',
      'ok',
      `MODE=${config.mode}, provider ${config.provider.name}, zone ${config.timeZone}`,
    )
    return config
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    for (const problem of error.problems) tell('environment', 'fault', problem)
    return undefined
  }
}

const gigabyte = 1e9

async function lookAtDisk({ dataDir }: Config, tell: Tell): Promise<void> {
  const found = await statfs(dataDir).catch(() => statfs(dirname(dataDir)).catch(() => undefined))
  if (!found) return tell('disk', 'note', `${dataDir} is not there yet`)
  const free = found.bavail * found.bsize
  const text = `${(free / gigabyte).toFixed(1)} GB free for ${dataDir}`
  if (free < gigabyte / 4) tell('disk', 'fault', `${text}; make room`)
  else if (free < 2 * gigabyte) tell('disk', 'note', `${text}; that is little`)
  else tell('disk', 'ok', text)
}

async function lookAtService(app: App, tell: Tell): Promise<void> {
  // The harmless calls, whose answers are nobody's business but ours: a key of this shell alone stops no charging.
  for (const { name, check } of app.billing.providers.all) {
    const startedAt = performance.now()
    const fault = (await check(app.clock())).find(({ ok }) => !ok)
    const ms = Math.round(performance.now() - startedAt)
    if (fault) tell('provider', 'fault', `${name}: ${fault.message}`)
    else tell('provider', 'ok', `${name} answers in ${ms} ms`)
  }

  const distribution = await statusOfDistribution(app)
  if (distribution)
    tell(
      'distribution',
      distribution.whole || distribution.tables.length === 0 ? 'ok' : 'fault',
      distribution.text,
    )

  const stop = await findChargingStop(app.billing.db)
  if (stop)
    tell('charging', 'fault', `is stopped (${stop.cause}); look why, then \`rankledger db resume-charging\``)
  const { workers, dead } = await queueVitals(app.billing.db)
  tell(
    'workers',
    workers > 0 ? 'ok' : 'note',
    workers > 0 ? `${workers} alive` : 'none is alive; start `rankledger serve` or `work`',
  )
  if (dead > 0) tell('jobs', 'note', `${dead} ran out of attempts; \`rankledger db jobs\` lists them`)
  for (const [kind, count] of Object.entries(await countAlarms(app.billing.db)))
    tell('alarms', 'fault', `${count} of kind ${kind}; \`rankledger db alarms\` says what to do`)
}
