import type { DeathPlace } from './boundaries.ts'
import type { Violation } from './checker.ts'
import { tailOf } from './history.ts'
import { type Death, openPlay } from './play.ts'
import { openSimulatedWorld, type SimulatedWorld } from './simulated-world.ts'
import type { Stage } from './stage.ts'
import type { Course } from './uses.ts'
import { judge } from './verdict.ts'
import { type Clients, converge, openClients } from './workload.ts'

/** One course, run once undisturbed and then once for every place with a death at exactly that place. */
export type Crashes = {
  readonly course: string
  readonly seed: number
  /** How many places of each kind there are to die at. */
  readonly places: Readonly<Record<string, number>>
  readonly deaths: number
  readonly failures: readonly CrashFailure[]
}

export type CrashFailure = {
  /** Which place it died at, counted from 1; 0: the undisturbed run failed. */
  readonly at: number
  readonly place: DeathPlace | 'nowhere'
  readonly violations: readonly Violation[]
  readonly ending: string
}

export type CrashOptions = {
  /** Only places of these kinds; without them, all. */
  readonly only?: ReadonlySet<DeathPlace>
  /** Only this place. */
  readonly at?: number | undefined
  readonly onRun?: () => void
}

export async function crashEverywhere(
  stage: Stage,
  course: Course,
  seed: number,
  { only, at: wanted, onRun }: CrashOptions = {},
): Promise<Crashes> {
  const name = nameOf(course)
  const whole = await runCourse(stage, course, seed, undefined)
  onRun?.()
  if (whole.violations.length > 0) {
    const failure: CrashFailure = { at: 0, place: 'nowhere', ...whole }
    return { course: name, seed, places: {}, deaths: 0, failures: [failure] }
  }

  const failures: CrashFailure[] = []
  const places: Record<string, number> = {}
  let deaths = 0
  for (const [index, place] of whole.places.entries()) {
    const at = index + 1
    if ((only && !only.has(place)) || (wanted !== undefined && wanted !== at)) continue
    places[place] = (places[place] ?? 0) + 1
    const cut = await runCourse(stage, course, seed, at)
    onRun?.()
    if (cut.died === place) deaths++
    const violations = [
      ...cut.violations,
      ...(cut.died === place ? [] : [{ invariant: 'it dies there', detail: `it died ${cut.died}` }]),
      ...differences(course, whole.end, cut.end),
    ]
    if (violations.length > 0) failures.push({ at, place, violations, ending: cut.ending })
  }
  return { course: name, seed, places, deaths, failures }
}

export function nameOf({ use, name }: Course): string {
  return `${use}: ${name}`
}

type CourseRun = {
  readonly places: readonly DeathPlace[]
  readonly died: DeathPlace | 'nowhere'
  readonly end: End
  readonly violations: readonly Violation[]
  readonly ending: string
}

// Longer than a week, so that what was canceled would be charged if it could, and a first retry is due.
const restDays = 9

async function runCourse(
  stage: Stage,
  course: Course,
  seed: number,
  at: number | undefined,
): Promise<CourseRun> {
  const world = await openSimulatedWorld(stage, seed)
  try {
    const clients = openClients(world)
    const death: Death = { at, places: [], came: false }
    const trouble = await play(stage, world, clients, course, death)
    const violations = [...trouble, ...(await judge(stage, world, clients.secrets))]
    return {
      places: death.places,
      died: death.came ? death.places.at(-1)! : 'nowhere',
      end: await endOf(world, clients),
      violations,
      ending: tailOf(world.history, 25),
    }
  } finally {
    stage.takeOutput()
    await stage.end()
  }
}

async function play(
  stage: Stage,
  world: SimulatedWorld,
  clients: Clients,
  course: Course,
  death: Death,
): Promise<Violation[]> {
  try {
    const script = openPlay(stage, world, clients, death, course.followedAfter)
    world.doom = () => false
    await course.before?.(script)
    world.doom = (place) => {
      if (death.came) return false
      death.places.push(place)
      death.came = death.places.length === death.at
      return death.came
    }
    await course.act(script)
    world.doom = () => false
    const unmet = [...world.planned.values()].flat()
    if (death.at === undefined && unmet.length > 0) throw new Error(`Nobody met ${unmet.join(', ')}.`)
    world.planned.clear()
    await converge(world, clients, restDays)
    return []
  } catch (error) {
    return [{ invariant: 'the run comes to an end', detail: String((error as Error).stack ?? error) }]
  }
}

/** What a use comes to: the last word that each caller got, who is subscribed, and all money that was kept. */
type End = { readonly answers: readonly number[]; readonly live: string; readonly money: string }

async function endOf({ observer }: SimulatedWorld, clients: Clients): Promise<End> {
  const { rows } = await observer.query<{ live: string | null; money: string | null }>(
    `select
       (select string_agg(concat_ws(' ', account_id, plan_id, status), ', ' order by id)
        from billing.subscription where status <> 'canceled') as live,
       (select string_agg(concat_ws(' ', status, amount_paid, amount_refunded), ', ' order by id)
        from billing.invoice where amount_paid > 0) as money`,
  )
  const answers = clients.keyed.map(({ entries }) => entries.at(-1)?.answer?.status ?? 0)
  return { answers, live: rows[0]!.live ?? '', money: rows[0]!.money ?? '' }
}

/** A death changes when things happen, and nothing about what they come to. */
function differences({ orElse }: Course, whole: End, cut: End): Violation[] {
  if (orElse && String(cut.answers.slice(-orElse.length)) === String(orElse)) return []
  return (['answers', 'live', 'money'] as const)
    .filter((part) => String(cut[part]) !== String(whole[part]))
    .map((part) => ({
      invariant: 'it comes to the same as if nobody had died',
      detail: `${part}: ${cut[part]} instead of ${whole[part]}`,
    }))
}
