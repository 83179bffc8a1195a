import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { openProgress } from '../../src/cli/progress.ts'
import { type Crashes, type CrashFailure, nameOf } from './crash-run.ts'
import { type CrashTask, openCrashWorker } from './crash-worker.ts'
import { workAlone, workTogether } from './crew.ts'
import { profileOf } from './model-provider.ts'
import { openServer } from './server.ts'
import { courses, uses } from './uses.ts'

/**
 * `npm run crash-everywhere -- --times 5`: every use in every course, cut short by a death at every single place that it
 * passes; exit 0 only if each of those deaths came and everything came right after it.
 */
const { values } = parseArgs({
  options: {
    /** How often each place is died at, each time with another seed. */
    times: { type: 'string', default: '1' },
    seed: { type: 'string', default: '1' },
    /** Only courses whose name holds this text: `refund`, or `refund: declined`. */
    only: { type: 'string', default: '' },
    /** Only this place, counted from 1. */
    at: { type: 'string' },
    /** Whose part the provider plays: sandbox, stripe, toss or portone. */
    provider: { type: 'string', default: 'sandbox' },
    /** How many processes share the work. */
    workers: { type: 'string', default: '1' },
    /** How much of the history of a failed run is shown. */
    tail: { type: 'string', default: '15' },
    /** Where the summary is written. */
    json: { type: 'string' },
    server: { type: 'string' },
  },
})
process.env['SIMULATED_PROVIDER'] = values.provider
profileOf()
const at = values.at === undefined ? undefined : Number(values.at)
const workers = Number(values.workers)
const tasks: CrashTask[] = Array.from(
  { length: Number(values.times) },
  (_, time) => Number(values.seed) + time,
)
  .flatMap((seed) => courses.map((course) => ({ course: nameOf(course), seed, at })))
  .filter(({ course }) => course.includes(values.only))

// Broken off, it ends with the course in hand, tells what came so far, and leaves no server running.
const broken = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => broken.abort())

const server =
  values.server === undefined ? await openServer() : { url: values.server, close: async () => {} }
try {
  const progress = openProgress('courses', tasks.length)
  const startedAt = performance.now()
  const results: Crashes[] = []
  const onResult = (result: Crashes) => {
    results.push(result)
    for (const failure of result.failures) console.log(describeFailure(result, failure, Number(values.tail)))
    progress.show(results.length, `${count(results).deaths} deaths`)
    return !broken.signal.aborted
  }
  if (workers === 1) await workAlone(await openCrashWorker(server.url), tasks, onResult)
  else
    await workTogether(new URL('./crash-process.ts', import.meta.url), [server.url], workers, tasks, onResult)
  progress.end()

  const table = uses
    .map((use) => ({ use, ...count(results.filter(({ course }) => course.startsWith(`${use}: `))) }))
    .filter(({ courses }) => courses > 0)
  const total = count(results)
  const seconds = Math.round((performance.now() - startedAt) / 1000)
  console.table(table)
  console.log(`${total.deaths} of ${total.runs} deaths came in ${seconds} s, ${total.violations} violations`)
  const isWhole = results.length === tasks.length
  const passed = isWhole && total.runs > 0 && total.deaths === total.runs && total.violations === 0
  if (values.json !== undefined)
    writeFileSync(
      values.json,
      `${JSON.stringify({ seconds, workers, table, total, passed, results }, null, 2)}\n`,
    )
  process.exitCode = passed ? 0 : 1
} finally {
  await server.close()
}

function count(results: readonly Crashes[]) {
  const sum = (list: readonly Crashes[], amount: (one: Crashes) => number) =>
    list.reduce((total, one) => total + amount(one), 0)
  const placesOf = ({ places }: Crashes) => Object.values(places).reduce((total, one) => total + one, 0)
  const once = results.filter(({ seed }) => seed === Number(values.seed))
  return {
    courses: once.length,
    boundaries: sum(once, placesOf),
    runs: sum(results, placesOf),
    deaths: sum(results, ({ deaths }) => deaths),
    violations: sum(results, ({ failures }) => failures.length),
  }
}

/** What failed, why, and the one line that shows it again. */
function describeFailure({ course, seed }: Crashes, failure: CrashFailure, lines: number): string {
  const { at, place, violations, ending } = failure
  return [
    `npm run crash-everywhere -- --only '${course}' --seed ${seed}${at > 0 ? ` --at ${at}` : ''}  # dies ${place}`,
    ...violations.slice(0, 12).map(({ invariant, detail }) => `  ${invariant}: ${detail}`),
    ...(lines > 0 ? ['  how it ended:', ...ending.split('\n').slice(-lines)] : []),
  ].join('\n')
}
