import type { App } from '../app.ts'
import { stopCharging } from '../billing/charging-stop.ts'
import { everyProvider, findChargingStop } from '../billing/charging-stop-rows.ts'
import { countUnsettled, overdueSeconds } from '../billing/due.ts'
import { resumeCharging } from '../billing/lifecycle/resume-charging.ts'
import { formatMoney, toJson } from '../billing/money.ts'
import { measureUnmatched } from '../billing/refunds/unmatched-rows.ts'
import { countSealed, reseal } from '../billing/reseal.ts'
import {
  countUnsent,
  listUnknown,
  listUnsent,
  listWaitingWebhooks,
  type UnsentMovement,
} from '../billing/summary/vitals-rows.ts'
import { listSweepFailures } from '../billing/sweeps/sweep-failure-rows.ts'
import { countInbox } from '../billing/webhooks/inbox-rows.ts'
import type { Foundation } from '../foundation.ts'
import { decideJob } from '../installation/decide-job.ts'
import { auditStatement } from '../platform/access/audit-rows.ts'
import { clearAlarm, countAlarms, listAlarms } from '../platform/alarm.ts'
import { grantsFor } from '../platform/database/grants.ts'
import { listDeadJobs, queueVitals } from '../platform/queue/queue.ts'
import { renderInstant } from '../platform/time.ts'
import {
  type Command,
  CommandFailed,
  parseFlags,
  print,
  printJson,
  printTable,
  UsageError,
  withApp,
  withFoundation,
} from './command.ts'
import { distributeTables, statusOfDistribution } from './db-distribute.ts'
import { openProgress } from './progress.ts'
import { readLine } from './read-line.ts'
import { applyGrants, findRole, measureDatabase } from './server-rows.ts'

export const db: Command = {
  summary: 'Look after the database: queue, inbox, keys',
  usage: `rankledger db status [--json]           what waits, what is overdue, what failed
rankledger db alarms [--json]           what only a person can put right
rankledger db clear-alarm KIND SUBJECT [--json]
                                        after it was put right
rankledger db jobs [--json]             jobs that ran out of attempts
rankledger db retry-job JOB_ID [--json] give such a job its attempts back
rankledger db discard-job JOB_ID [--json]
                                        or take it out of the queue for good
rankledger db unknown [--json]          charges and refunds without a clear answer, and those that could not be sent
rankledger db webhooks [--json]         notifications that had no effect so far
rankledger db grants --role ROLE [--apply] [--json]
                                        what a role needs to serve and work, as SQL; --apply runs it
rankledger db rotate-keys [--json]      seal everything anew with the first of VAULT_KEYS
rankledger db stop-charging [--cause TEXT] [--json]
                                        nothing is charged, renewed or ended until you resume
rankledger db resume-charging [--json]  charge again after a stop; what fell due before is looked up first
rankledger db distribute [--shards N] [--volume-shards N] [--json]
                                        spread the batch tables over the nodes of a Citus cluster (docs/scaling.md)

rotate-keys may be stopped and run again, while the service runs. Once every process seals with the first key and it finds
nothing to seal anew, the older keys may leave VAULT_KEYS. distribute may be stopped and run again too; reads go on
meanwhile, and whoever writes batch data waits.`,

  async run([verb, ...args]) {
    const { values, positionals } = parseFlags(args, {
      json: { type: 'boolean', default: false },
      role: { type: 'string' },
      apply: { type: 'boolean', default: false },
      cause: { type: 'string' },
      shards: { type: 'string' },
      'volume-shards': { type: 'string' },
    })
    const wanted = verb === 'clear-alarm' ? 2 : verb === 'retry-job' || verb === 'discard-job' ? 1 : 0
    if (positionals.length !== wanted) {
      throw new UsageError(
        'retry-job and discard-job take exactly one id, clear-alarm a kind and a subject, the others nothing.',
      )
    }
    if ((values.role !== undefined || values.apply) && verb !== 'grants')
      throw new UsageError('Only grants takes --role and --apply.')
    if (values.cause !== undefined && verb !== 'stop-charging')
      throw new UsageError('Only stop-charging takes --cause.')
    if (values.cause !== undefined) readLine('--cause', values.cause, 200)
    if ((values.shards !== undefined || values['volume-shards'] !== undefined) && verb !== 'distribute')
      throw new UsageError('Only distribute takes --shards and --volume-shards.')
    const [first, second] = positionals
    if (verb === 'status') return withFoundation('db', (app) => status(app, values.json))
    if (verb === 'alarms') return withFoundation('db', (app) => alarms(app, values.json))
    if (verb === 'clear-alarm') return withFoundation('db', (app) => clear(app, first!, second!, values.json))
    if (verb === 'jobs') return withFoundation('db', (app) => jobs(app, values.json))
    if (verb === 'retry-job') return withFoundation('db', (app) => retryJob(app, first!, values.json))
    if (verb === 'discard-job') return withFoundation('db', (app) => discardJob(app, first!, values.json))
    if (verb === 'unknown') return withFoundation('db', (app) => unknown(app, values.json))
    if (verb === 'webhooks') return withFoundation('db', (app) => webhooks(app, values.json))
    if (verb === 'grants') return withFoundation('db', (app) => grants(app, values))
    if (verb === 'rotate-keys') return withApp('db', (app) => rotateKeys(app, values.json))
    if (verb === 'stop-charging')
      return withFoundation('db', (app) => stopByHand(app, values.json, values.cause))
    if (verb === 'resume-charging') return withApp('db', (app) => resume(app, values.json))
    if (verb === 'distribute') return withFoundation('db', (app) => distributeTables(app, values))
    throw new UsageError(
      'Say what to do: status, alarms, clear-alarm, jobs, retry-job, discard-job, unknown, webhooks, grants, rotate-keys, stop-charging, resume-charging or distribute.',
    )
  },
}

async function status(app: Foundation, asJson: boolean): Promise<number> {
  const { billing, pool } = app
  // Not the rows of workers: one that was killed leaves its own behind, and nobody is left to take it away.
  const { workers, waiting, dead } = await queueVitals(billing.db)
  const inbox = await countInbox(billing.db)
  const failures = await listSweepFailures(billing.db, 100)
  const stop = await stopOf(app)
  const database = await measureDatabase(pool)
  const found = {
    postgres: database.version,
    megabytes: Math.round(Number(database.bytes) / 1e6),
    migrations: database.migrations,
    workers,
    now: renderInstant(app.clock(), app.config.timeZone),
    alarms: await countAlarms(billing.db),
    jobs: { waiting, dead },
    sweep_failures: failures.map((one) => ({
      sweep: one.sweep,
      subject: one.subject,
      reason: one.reason,
      failures: one.failures,
      since: renderInstant(one.firstAt, app.config.timeZone),
    })),
    webhooks: inbox,
    unsettled: await countUnsettled(billing),
    unsent: await countUnsent(billing.db),
    unmatched_money: await unmatchedOf(app),
    overdue_seconds: await overdueSeconds(billing),
    charging_stopped: stop,
    distribution: await statusOfDistribution(app),
  }
  if (asJson) printJson(found)
  else {
    print(
      `PostgreSQL ${found.postgres}, ${found.megabytes} MB, ${found.migrations} migrations, ${found.workers} workers alive`,
    )
    print(`Service time  ${found.now}`)
    if (found.distribution) print(`Distribution  ${found.distribution.text}`)
    print(`Jobs          ${waiting} waiting, ${dead} dead`)
    print(`Webhooks      ${inbox.waiting} waiting, ${inbox.failed} failed`)
    print(`Unsettled     ${found.unsettled} charges and refunds`)
    if (found.unsent > 0)
      print(`WAITING       ${found.unsent} charges could not be sent so far; see \`rankledger db unknown\``)
    if (found.unmatched_money.payments > 0)
      print(
        `UNMATCHED     ${found.unmatched_money.payments} payments that pay for nothing did not go back; see \`rankledger backlog unmatched list\``,
      )
    const late = Object.entries(found.overdue_seconds).filter(([, seconds]) => seconds > 0)
    print(
      `Overdue       ${late.map(([kind, seconds]) => `${kind} ${Math.round(seconds)} s`).join(', ') || 'nothing'}`,
    )
    for (const { sweep, subject, reason, failures: times } of failures.slice(0, 10))
      print(`BROKEN ROW    ${subject}: ${sweep} failed ${times} times (${reason}); the rest goes on`)
    if (failures.length > 10) print(`              and more; see --json`)
    const alarming = Object.entries(found.alarms)
    if (alarming.length > 0)
      print(
        `ALARMS        ${alarming.map(([kind, count]) => `${kind} ${count}`).join(', ')}; see \`rankledger db alarms\``,
      )
    if (stop)
      print(
        `CHARGING${stop.provider === everyProvider ? '' : ` THROUGH ${stop.provider}`} IS STOPPED (${stop.cause}); look why, then \`rankledger db resume-charging\`.`,
      )
  }
  return 0
}

async function unmatchedOf(app: Foundation) {
  const { counts, oldestSeconds } = await measureUnmatched(app.billing.db, app.clock())
  const payments = Object.values(counts).reduce((sum, count) => sum + count, 0)
  return { payments, oldest_seconds: Math.round(oldestSeconds), ...counts }
}

async function alarms(app: Foundation, asJson: boolean): Promise<number> {
  const view = (await listAlarms(app.billing.db, 1_000)).map((alarm) => ({
    kind: alarm.kind,
    subject: alarm.subject,
    count: alarm.count,
    since: renderInstant(alarm.raisedAt, app.config.timeZone),
    last: renderInstant(alarm.lastAt, app.config.timeZone),
    note: alarm.note,
  }))
  if (asJson) printJson({ alarms: view })
  else if (view.length === 0) print('No alarm is raised.')
  else {
    printTable(
      ['KIND', 'SUBJECT', 'TIMES', 'SINCE', 'NOTE'],
      view.map((one) => [one.kind, one.subject, String(one.count), one.since, one.note]),
    )
  }
  return 0
}

async function clear(app: Foundation, kind: string, subject: string, asJson: boolean): Promise<number> {
  if (!(await clearAlarm(app.billing.db, kind, subject)))
    throw new CommandFailed('No such alarm is raised; `rankledger db alarms` lists them.')
  await note(app, 'alarm.clear', `${kind}:${subject}`)
  if (asJson) printJson({ kind, subject, outcome: 'cleared' })
  else print(`${kind} ${subject} is cleared. If its cause is still there, it is raised again.`)
  return 0
}

async function jobs(app: Foundation, asJson: boolean): Promise<number> {
  const dead = await listDeadJobs(app.billing.db, 1_000)
  const view = dead.map((job) => ({ ...job, since: renderInstant(job.since, app.config.timeZone) }))
  if (asJson) printJson({ jobs: view })
  else if (view.length === 0) print('No job is dead.')
  else {
    printTable(
      ['JOB', 'NAME', 'ATTEMPTS', 'LAST ERROR', 'SINCE'],
      view.map((job) => [job.id, job.name, String(job.attempts), job.last_error, job.since]),
    )
  }
  return 0
}

async function retryJob(app: Foundation, id: string, asJson: boolean): Promise<number> {
  if (!/^\d{1,18}$/.test(id)) throw new UsageError('A job id is a number; `rankledger db jobs` lists them.')
  if (!(await decideJob(app, id, 'retry', actor))) throw new CommandFailed(`No dead job has the id ${id}.`)
  if (asJson) printJson({ job_id: id, outcome: 'queued' })
  else print(`Job ${id} is back in the queue.`)
  return 0
}

async function discardJob(app: Foundation, id: string, asJson: boolean): Promise<number> {
  if (!/^\d{1,18}$/.test(id)) throw new UsageError('A job id is a number; `rankledger db jobs` lists them.')
  if (!(await decideJob(app, id, 'discard', actor))) throw new CommandFailed(`No dead job has the id ${id}.`)
  if (asJson) printJson({ job_id: id, outcome: 'discarded' })
  else print(`Job ${id} is discarded.`)
  return 0
}

async function unknown(app: Foundation, asJson: boolean): Promise<number> {
  const told = (instant: Date) => renderInstant(instant, app.config.timeZone)
  const found = await listUnknown(app.billing.db, 1_000)
  const unsent = await listUnsent(app.billing.db, 1_000)
  if (asJson) {
    printJson({
      unknown: found.map((one) => ({
        ...one,
        ...toJson(one.amount),
        created_at: told(one.created_at),
        next_lookup_at: told(one.next_lookup_at),
      })),
      unsent: unsent.map((one) => ({
        ...one,
        ...toJson(one.amount),
        created_at: told(one.created_at),
        next_try_at: told(one.next_try_at),
      })),
    })
    return 0
  }
  if (found.length === 0) print('Every charge and refund that was sent has a clear answer.')
  else {
    printTable(
      ['ID', 'INVOICE', 'AMOUNT', 'PROVIDER', 'REFERENCE', 'SINCE', 'LOOKUPS', 'NEXT LOOKUP'],
      found.map((one) => [
        one.id,
        one.invoice_id,
        formatMoney(one.amount),
        one.provider,
        one.reference,
        told(one.created_at),
        String(one.lookups),
        told(one.next_lookup_at),
      ]),
    )
  }
  if (unsent.length > 0) {
    print('\nThese could not be sent so far. They go out by themselves once what blocks them is over:')
    printTable(
      ['ID', 'INVOICE', 'ACCOUNT', 'AMOUNT', 'PROVIDER', 'SINCE', 'BLOCKED BY'],
      unsent.map((one) => [
        one.id,
        one.invoice_id,
        one.account_id,
        formatMoney(one.amount),
        one.provider,
        told(one.created_at),
        one.cause === null ? blockers[one.blocked_by] : `${blockers[one.blocked_by]} (${one.cause})`,
      ]),
    )
  }
  return 0
}

const blockers: Readonly<Record<UnsentMovement['blocked_by'], string>> = {
  charging_stopped: 'charging is stopped',
  provider_missing: 'the keys of this provider are not set',
  provider_unavailable: 'the provider does not answer',
}

async function webhooks(app: Foundation, asJson: boolean): Promise<number> {
  const found = (await listWaitingWebhooks(app.billing.db, 1_000)).map((one) => ({
    ...one,
    received_at: renderInstant(one.received_at, app.config.timeZone),
  }))
  if (asJson) printJson({ webhooks: found })
  else if (found.length === 0) print('No webhook waits.')
  else {
    printTable(
      ['EVENT', 'TYPE', 'STATUS', 'TRIES', 'LAST ERROR', 'RECEIVED'],
      found.map((one) => [
        one.event_id,
        one.type,
        one.status,
        String(one.tries),
        one.last_error ?? '',
        one.received_at,
      ]),
    )
  }
  return 0
}

async function grants(
  app: Foundation,
  { role, apply, json }: { role?: string; apply: boolean; json: boolean },
): Promise<number> {
  if (!role) throw new UsageError('Say which role: rankledger db grants --role app.')
  const known = await findRole(app.pool, role)
  if (!known)
    throw new CommandFailed(
      `There is no role ${role}; make it first: create role ${role} login password '…'.`,
    )
  if (known.isSuperuser)
    throw new CommandFailed(`Role ${role} is a superuser and may do everything; choose an ordinary one.`)
  const statements = await grantsFor(app.pool, role)
  if (apply) await applyGrants(app.pool, statements)
  if (json) printJson({ role, applied: apply, statements })
  else if (apply) print(`${statements.length} statements applied: role ${role} may serve and work.`)
  else for (const statement of statements) print(statement)
  return 0
}

async function rotateKeys(app: App, asJson: boolean): Promise<number> {
  const progress = openProgress('Sealed values checked', await countSealed(app.billing.db))
  const done = await reseal(app.billing, ({ checked, resealed }) =>
    progress.show(checked, `${resealed} sealed anew`),
  )
  progress.end()
  const [first] = app.config.vaultKeys
  await note(app, 'keys.rotate', `vault:${first?.version ?? 'data-dir'}`)
  if (asJson) printJson(done)
  else print(`${done.checked} sealed values checked, ${done.resealed} sealed anew with the first key.`)
  return 0
}

async function stopByHand(app: Foundation, asJson: boolean, cause = 'operator'): Promise<number> {
  await stopCharging(app.billing.db, cause, app.clock(), { stopsCalendar: true })
  await note(app, 'charging.stop', 'charging')
  if (asJson) printJson({ charging_stopped: await stopOf(app) })
  else
    print(
      'Nothing is charged, renewed or ended any more; every process knows within a second. `rankledger db resume-charging` goes on.',
    )
  return 0
}

async function resume(app: App, asJson: boolean): Promise<number> {
  if (!(await resumeCharging(app.billing))) throw new CommandFailed('Charging is not stopped.')
  await note(app, 'charging.resume', 'charging')
  if (asJson) printJson({ charging_stopped: null })
  else print('Charging resumed; every process knows within a second.')
  return 0
}

const actor = 'operator'

/** Who did it, and when: whoever looks at the audit later asks the same of the machine as of the API. */
async function note(app: Foundation, action: string, target: string): Promise<void> {
  await auditStatement({ at: app.clock(), actor, action, accountId: null, target }).execute(app.billing.db)
}

async function stopOf(app: Foundation): Promise<{ provider: string; cause: string; at: string } | null> {
  const stop = await findChargingStop(app.billing.db)
  return stop
    ? { provider: stop.provider, cause: stop.cause, at: renderInstant(stop.stoppedAt, app.config.timeZone) }
    : null
}
