import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import type { Recovery } from './kills.ts'
import { type ChaosReport, runChaos } from './run-chaos.ts'
import type { Troubles } from './troubles.ts'

/** `npm run chaos -- --minutes 10`: exit 0 only if no invariant broke and every kind of trouble came. */
const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    /** Ends as soon as so many processes of the service and so many postmasters were killed, if that comes sooner. */
    kills: { type: 'string' },
    'postmaster-kills': { type: 'string' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    clients: { type: 'string', default: '8' },
    /** Whose adapter and simulator: sandbox, stripe, toss or portone. */
    provider: { type: 'string', default: 'sandbox' },
    json: { type: 'string' },
    /** Where logs, history and rows of a run with violations are kept. */
    keep: { type: 'string' },
  },
})

const limits = {
  ms: Number(values.minutes) * 60_000,
  kills: Number(values.kills ?? Number.POSITIVE_INFINITY),
  postmasterKills: Number(values['postmaster-kills'] ?? Number.POSITIVE_INFINITY),
}
// Interrupted, it comes to rest and is judged like any other run.
let interrupted = false
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.on(signal, () => {
    interrupted = true
  })
const isEnough = (troubles: Troubles, elapsedMs: number) =>
  interrupted ||
  elapsedMs >= limits.ms ||
  (troubles.kills('application') >= limits.kills && troubles.kills('postmaster') >= limits.postmasterKills)

console.log(`seed ${values.seed}, provider ${values.provider}`)
const report = await runChaos({
  seed: Number(values.seed),
  provider: values.provider,
  clients: Number(values.clients),
  pace: { killEveryMs: 2_000, illMs: 2_500 },
  isEnough,
  ...(values.keep !== undefined && { keepIn: values.keep }),
  onProgress: progressLine(),
})
console.log(described(report))
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(summaryOf(report), null, 2)}\n`)
process.exitCode = report.violations.length === 0 && report.neverCame.length === 0 ? 0 : 1

/** One line that moves on a terminal, and a new one now and then elsewhere. */
function progressLine(): (line: string) => void {
  let shownAt = Number.NEGATIVE_INFINITY
  let phase = ''
  return (line) => {
    const isNews = line.split(':')[0] !== phase
    const isTime = performance.now() - shownAt >= (process.stdout.isTTY ? 200 : 15_000)
    if (!isNews && !isTime) return
    phase = line.split(':')[0]!
    shownAt = performance.now()
    process.stdout.write(process.stdout.isTTY ? `\r\x1b[K${line}` : `${line}\n`)
  }
}

function summaryOf({ recoveries, ...rest }: ChaosReport) {
  const victims = [...new Set(recoveries.map(({ victim }) => victim))]
  return { ...rest, recovery: Object.fromEntries(victims.map((one) => [one, recoveryOf(recoveries, one)])) }
}

function recoveryOf(recoveries: readonly Recovery[], victim: Recovery['victim']) {
  const times = recoveries.filter((one) => one.victim === victim).map(({ ms }) => ms)
  times.sort((a, b) => a - b)
  const at = (share: number) => Math.round(times[Math.ceil(times.length * share) - 1] ?? 0)
  return { count: times.length, p50Ms: at(0.5), p99Ms: at(0.99), maxMs: at(1) }
}

function described(report: ChaosReport): string {
  const { recovery, violations, troubles, neverCame } = summaryOf(report)
  return [
    '',
    `${report.seconds.toFixed(0)} s, ${report.requests} requests (${report.unanswered} unanswered), ` +
      `${report.acknowledged} acknowledged writes, ${report.charges} charges, ${report.notifications} notifications sent`,
    `billing answers: ${Object.entries(report.answers)
      .map(([status, count]) => `${count} × ${status}`)
      .join(', ')}`,
    `${report.applicationKills} kills of processes, ${report.postmasterKills} of the postmaster`,
    ...Object.entries(recovery).map(
      ([victim, { count, p50Ms, p99Ms }]) =>
        `  ${victim.padEnd(10)} ${count} times, back after ${p50Ms} ms (p50), ${p99Ms} ms (p99)`,
    ),
    'troubles:',
    ...Object.entries(troubles)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([kind, count]) => `  ${String(count).padStart(4)} ${kind}`),
    ...(neverCame.length > 0 ? [`never came: ${neverCame.join(', ')}`] : []),
    `${violations.length} violations`,
    ...violations.slice(0, 40).map(({ invariant, detail }) => `  ${invariant}: ${detail}`),
    ...(violations.length > 0
      ? [`npm run chaos -- --provider ${values.provider} --minutes ${values.minutes} --seed ${report.seed}`]
      : []),
  ].join('\n')
}
