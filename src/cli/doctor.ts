import { statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import { type Config, ConfigError, loadConfig } from '../config.ts'
import { foundationOn } from '../foundation.ts'
import { sanitize } from '../platform/log/sanitize.ts'
import { type Command, parseOnlyFlags, print, printJson, underGuard } from './command.ts'
import { type Finding, lookAtDatabase, sentenceOf, type Tell } from './doctor-database.ts'
import { lookAtService } from './doctor-service.ts'

export const doctor: Command = {
  summary: 'Say what is wrong with this installation, line by line',
  usage: `rankledger doctor [--json]

Looks at the environment, the database connections, the replica, encoding, schema, rights, pooler, clock, disk, keys and the payment
provider, changes nothing, and exits 1 if anything is at fault. An embedded database is looked into while a service runs on it.`,

  async run(args) {
    const { values } = parseOnlyFlags(args, { json: { type: 'boolean', default: false } })
    const report = openReport(values.json)
    const config = readEnvironment(report.tell)
    if (!config) return report.end()
    return underGuard(config, { stdout: 'results' }, async () => {
      const { mode, provider, timeZone } = config
      report.tell('environment', 'ok', `MODE=${mode}, provider ${provider.name}, zone ${timeZone}`)
      await examine(config, report.tell)
      return report.end()
    })
  },
}

/** Findings are printed as they come, or all at once as JSON. The end gives the exit code. */
function openReport(asJson: boolean): { tell: Tell; end(): number } {
  const findings: Finding[] = []
  return {
    tell(check, state, message) {
      findings.push({ check, state, message })
      if (!asJson) print(`${state.padEnd(6)}${check.padEnd(14)}${message}`)
    },
    end() {
      const healthy = findings.every(({ state }) => state !== 'fault')
      if (asJson) printJson({ healthy, findings })
      return healthy ? 0 : 1
    },
  }
}

/** Where the environment cannot be read there is no guard yet, so each sentence is sanitized by itself. */
function readEnvironment(tell: Tell): Config | undefined {
  try {
    return { ...loadConfig(), logLevel: 'error' as const }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    for (const problem of error.problems) tell('environment', 'fault', sanitize(problem))
    return undefined
  }
}

async function examine(config: Config, tell: Tell): Promise<void> {
  try {
    await lookAtDisk(config, tell)
    // A database that is not fit ends the look: what comes next reads this release's tables.
    const database = await lookAtDatabase(config, tell)
    if (!database) return
    const foundation = await foundationOn(config, database, { name: 'doctor', poolSize: 4 })
    try {
      await lookAtService(foundation, tell)
    } finally {
      await foundation.close()
    }
  } catch (error) {
    tell('service', 'fault', sentenceOf(error))
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
