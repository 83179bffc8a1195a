import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Config, loadConfig } from '../config.ts'
import { type ApiClient, DemoFailed, openApiClient } from '../demo/api-client.ts'
import { type DemoBatch, demoBatch } from '../demo/demo-batch.ts'
import { demoBilling, demoSteps } from '../demo/demo-billing.ts'
import { urlOnThisMachine } from '../platform/loopback.ts'
import { type Command, CommandFailed, parseOnlyFlags, print, printJson, withFoundation } from './command.ts'
import { openProgress } from './progress.ts'

export const demo: Command = {
  summary: 'Fill a running sandbox with a believable year',
  usage: `rankledger demo [--billing] [--batch] [--json]

--billing lets fifty customers live through a year against the running service, by its own API and its movable clock: trials,
declines, retries, refunds, cancellations, new payment methods. The service's clock is a year further afterwards.
--batch fills a workspace with keywords, ranks and search volumes, and sets up a tracker over a made-up web: every day that the
clock passes brings its checks.
Without either, both. Sandbox mode only.`,

  async run(args) {
    const { values } = parseOnlyFlags(args, {
      billing: { type: 'boolean', default: false },
      batch: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
    })
    const config = loadConfig()
    if (config.mode === 'live')
      throw new CommandFailed('The demo makes up customers and moves the clock; it refuses MODE=live.')
    const both = !values.billing && !values.batch
    const billing = values.billing || both ? await billingYear(config).catch(explain) : undefined
    if (!values.json) for (const line of billing ?? []) print(line)
    const batch = values.batch || both ? await batchHistory() : undefined
    if (values.json) printJson({ ...(billing && { billing }), ...(batch && { batch }) })
    else if (batch) tellBatch(batch, config)
    return 0
  },
}

function explain(error: unknown): never {
  throw error instanceof DemoFailed ? new CommandFailed(error.message) : error
}

async function billingYear(config: Config): Promise<string[]> {
  const client = await openClient(config)
  const progress = openProgress('Steps of a year', demoSteps)
  const year = await demoBilling(client, tokenFile(config), (done, note) => progress.show(done, note))
  progress.end()
  return year
}

async function openClient(config: Config): Promise<ApiClient> {
  const url = urlOnThisMachine(config.host, config.port)
  const client = openApiClient(url, config.bootstrapToken ?? readToken(config) ?? '')
  const { status } = await client.get('/api/sandbox/clock')
  if (status === 401 || status === 403) {
    throw new CommandFailed(
      `The service at ${url} does not take our token. Run this with the RANKLEDGER_DATA or BOOTSTRAP_TOKEN that the service has.`,
    )
  }
  if (status === 404) throw new CommandFailed(`The service at ${url} does not run in sandbox mode.`)
  return client
}

function tokenFile(config: Config): string {
  return join(config.dataDir, 'token')
}

function readToken(config: Config): string | undefined {
  try {
    return readFileSync(tokenFile(config), 'utf8').trim()
  } catch {
    return undefined
  }
}

async function batchHistory(): Promise<DemoBatch> {
  let made: DemoBatch | undefined
  await withFoundation('demo', async (app) => {
    let progress: ReturnType<typeof openProgress> | undefined
    made = await demoBatch(app.batch, {
      onProgress: (done, of) => {
        progress ??= openProgress('Batch history', of)
        progress.show(done)
      },
    })
    progress?.end()
    return 0
  })
  return made!
}

function tellBatch(made: DemoBatch, config: Config): void {
  print('')
  print(
    `Workspace ${made.workspace}: ${made.keywords} keywords, ${made.ranks} ranks, ${made.volumes} volume observations.`,
  )
  if (made.tracker !== null)
    print(
      `Tracker ${made.tracker}: 20 of them are checked every day on a made-up web; move the clock to see it.`,
    )
  print('Next:')
  print(`  export BASE='${urlOnThisMachine(config.host, config.port)}' TOKEN="$(cat '${tokenFile(config)}')"`)
  for (const line of made.next) print(`  ${line}`)
}
