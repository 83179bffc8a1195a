import type { AddressInfo } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { type App, startNotifier } from '../app.ts'
import { seedPlans } from '../billing/plans/seed-plans.ts'
import type { Config } from '../config.ts'
import { hasConsole } from '../installation/console-routes.ts'
import { openOperationsServer } from '../installation/operations-server.ts'
import { newSession } from '../platform/access/session.ts'
import { insertSignInCode } from '../platform/access/session-rows.ts'
import { tokenIdOf } from '../platform/access/token.ts'
import { openReadiness } from '../platform/http/readiness.ts'
import { showOnce } from '../platform/log/show-once.ts'
import { watchProcess } from '../platform/metrics.ts'
import { release } from '../platform/release.ts'
import { endOf, endWithin, mostAfterCallsMs } from '../platform/shutdown.ts'
import { buildServer } from '../server.ts'
import { startUpkeep, startWorker } from '../worker.ts'
import { type BootstrapToken, bootstrapToken } from './bootstrap-token.ts'
import { type Command, CommandFailed, parseOnlyFlags } from './command.ts'
import { runService, type Service } from './run-service.ts'

export const serve: Command = {
  summary: 'Answer the API, and work jobs too',
  usage: `rankledger serve [--no-worker] [--charging-stopped] [--json]

Runs until SIGINT or SIGTERM, then finishes what is under way. --no-worker leaves the jobs to \`rankledger work\`.
--charging-stopped (or CHARGING=stopped) stops charging before anything else, as for a restored database.
With --json it says nothing but lines of JSON: the log, and no banner.`,

  async run(args) {
    // Bodies and answers of megabytes are garbage once they are sent. Left to itself the heap triples before it is swept.
    setFlagsFromString('--heap-growing-percent=50')
    // Alone it takes a millisecond to sweep what is young; a helper that has no core of its own keeps it waiting for thirty.
    setFlagsFromString('--no-parallel-scavenge')
    const { values } = parseOnlyFlags(args, {
      'no-worker': { type: 'boolean', default: false },
      'charging-stopped': { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
    })
    const chargingStopped = values['charging-stopped']
    return runService({ name: 'serve', chargingStopped }, (service) =>
      serveApp(service, { withWorker: !values['no-worker'], withBanner: !values.json }),
    )
  },
}

async function serveApp(
  { app, startedAt, stopSignal, onFailure }: Service,
  { withWorker, withBanner }: { withWorker: boolean; withBanner: boolean },
): Promise<number> {
  const token = await bootstrapToken(app)
  if (app.config.mode === 'sandbox') await seedPlans(app.billing)
  const readiness = openReadiness()
  const http = await buildServer(app, readiness)
  onFailure(() => closeWithin(http, mostAfterCallsMs))
  const operations = await openOperationsServer(app, readiness)
  onFailure(() => operations?.close())
  const url = await listen(http, app.config)
  watchProcess(app.metrics, release)
  const notifier = startNotifier(app, url)
  onFailure(() => notifier?.close())
  const upkeep = startUpkeep(app)
  onFailure(() => upkeep.stop())
  const worker = withWorker ? startWorker(app) : undefined
  onFailure(() => worker?.stop())
  readiness.open()
  app.log.info('service.started', {
    mode: app.config.mode,
    port: (http.server.address() as AddressInfo).port,
    worker: withWorker,
    ms: Math.round(performance.now() - startedAt),
  })
  if (withBanner && app.config.mode === 'sandbox')
    showOnce(banner(url, app, token, { withWorker, consoleUrl: await consoleUrl(app, url, token) }))

  const signal = await stopSignal
  const stoppingAt = performance.now()
  app.log.info('service.stopping', { signal })
  const left = endWithin(app.config.provider.timeoutMs + mostAfterCallsMs)
  // What nobody waits for ends first; requests are answered as long as the door is open.
  app.providerGuard.windDown()
  const worked = worker?.stop()
  await readiness.turnAway()
  await closeWithin(http, left())
  app.providerGuard.shut()
  await endOf([worked, notifier?.close(), upkeep.stop(), app.providerGuard.idle()], left())
  await operations?.close()
  app.log.info('service.stopped', { ms: Math.round(performance.now() - stoppingAt) })
  return 0
}

async function listen(http: Awaited<ReturnType<typeof buildServer>>, config: Config): Promise<string> {
  try {
    return await http.listen({ host: config.host, port: config.port })
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    if (code === 'EADDRINUSE') {
      throw new CommandFailed(
        `Port ${config.port} is taken; stop what uses it or set PORT to another (0 = any free one).`,
      )
    }
    if (code === 'EACCES' || code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
      throw new CommandFailed(
        `Cannot listen on HOST=${config.host} PORT=${config.port} (${code}); choose others.`,
      )
    }
    throw error
  }
}

/** Answers what has arrived; a caller that keeps a request open past the limit is cut off. */
async function closeWithin(http: Awaited<ReturnType<typeof buildServer>>, ms: number): Promise<void> {
  const cut = setTimeout(() => http.server.closeAllConnections(), ms)
  await http.close()
  clearTimeout(cut)
}

/** On a terminal the address signs in by itself, once and within five minutes. The code is in the fragment, which no server sees. */
async function consoleUrl(
  app: App,
  url: string,
  own: BootstrapToken | undefined,
): Promise<string | undefined> {
  if (!hasConsole()) return undefined
  if (!own || process.stdout.isTTY !== true) return `${url}/console`
  const code = newSession()
  app.secrets.addPassing(code)
  await insertSignInCode(app.pool, code, tokenIdOf(own.token))
  return `${url}/console/sign-in#code=${code} (signs in once, within 5 minutes)`
}

function banner(
  url: string,
  app: App,
  own: BootstrapToken | undefined,
  { withWorker, consoleUrl }: { withWorker: boolean; consoleUrl: string | undefined },
): string {
  // What is not a terminal is a file or a collector of logs, where a token that may do everything must not stay.
  const isShown = process.stdout.isTTY === true
  const bearer = own ? (isShown ? own.token : `$(cat ${own.file})`) : '$TOKEN'
  const line = (name: string, text: string) => `  ${name.padEnd(10)}${text}`
  return [
    '',
    `  Rankledger ${release} · sandbox mode: no real money moves`,
    '',
    line('API', url),
    ...(consoleUrl ? [line('Console', consoleUrl)] : []),
    line('Docs', `${url}/docs`),
    line(
      'Provider',
      [app.config.provider.name, ...(app.sandboxUrl ? [`at ${app.sandboxUrl}`] : [])].join(' '),
    ),
    line('Worker', withWorker ? 'in this process' : 'elsewhere (rankledger work)'),
    line('Data', app.config.databaseUrl ? 'DATABASE_URL' : app.config.dataDir),
    ...(own ? [line('Token', isShown ? own.token : `in ${own.file}`)] : []),
    '',
    '  Try it:',
    `    curl -s ${url}/api/batch/keywords -H "Authorization: Bearer ${bearer}" \\`,
    `      -H 'Content-Type: application/json' -d '{"workspace_id":"ws_1","keywords":["running shoes","나이키 운동화"]}'`,
    '',
    '  Ctrl-C stops everything.',
    '',
  ].join('\n')
}
