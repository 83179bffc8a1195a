import { refuseRequest } from '../../platform/refusal.ts'
import { dayOf, isZone } from '../../platform/time.ts'
import type { BatchApp } from '../app.ts'
import { cleanAll } from '../keywords/clean-keywords.ts'
import type { Keyword } from '../keywords/keyword.ts'
import { invalid, refuse } from '../refusals.ts'
import type { RankSource, Source, SourceName } from '../sources/port.ts'
import { dropUntouchedChecks, moveToNewSource } from './check-rows.ts'
import { type MatchMode, readSite } from './site.ts'
import { dayAfter, type Every, firstCheckDay, planOf, type Tracker, type Window } from './tracker.ts'
import { findTracker, lockTrackers, upsertTracker } from './tracker-rows.ts'

export type TrackerForm = {
  site: string
  match: MatchMode
  engine: string
  device: string
  location: string
  language?: string
  depth: number
  source: string
  every: Every
  window?: { from: string; to: string; zone?: string }
  keywords: 'all' | readonly unknown[]
  budget_per_day?: number
}

/**
 * Creates a tracker or puts another in its place. Nothing is spent by it: its first checks come with its window. What is
 * planned for today and not yet made is asked as the new one says.
 */
export async function putTracker(
  app: BatchApp,
  workspaceId: string,
  id: string,
  form: TrackerForm,
  { isForAll }: { isForAll: boolean },
): Promise<Tracker> {
  const source = rankSourceOf(app, form.source)
  requireBudget(source, isForAll)
  requireAbility(source.ranks, form)
  const site = readSite(form.site, form.match)
  if (site.refusal !== undefined)
    throw invalid('site', form.match === 'regex' ? 'invalid_pattern' : 'invalid_site', site.refusal)
  const window = windowOf(app, form.window)
  const keywords = form.keywords === 'all' ? null : distinct(cleanAll(form.keywords))

  const now = app.clock()
  return app.db.transaction().execute(async (tx) => {
    await lockTrackers(tx, workspaceId)
    const before = await findTracker(tx, workspaceId, id)
    const { anchorDay, nextDay } = daysOf(before, form.every, window, now)
    const tracker: Tracker = {
      workspaceId,
      id,
      site: site.site,
      match: form.match,
      engine: form.engine,
      device: form.device,
      location: form.location,
      language: form.language ?? null,
      depth: form.depth,
      source: form.source,
      every: form.every,
      window,
      keywords,
      budgetPerDay: form.budget_per_day ?? null,
      anchorDay,
      nextDay,
      nextPlanAt: planOf(nextDay, window).opensAt,
    }
    if (!(await upsertTracker(tx, tracker, now))) throw refuse('series_taken')
    if (before) {
      await moveToNewSource(tx, tracker)
      await dropUntouchedChecks(tx, tracker)
    }
    return tracker
  })
}

/** A source that is set up and knows ranks. */
export function rankSourceOf(app: BatchApp, name: string): Source & { ranks: RankSource } {
  const source = app.sources.get(name as SourceName)
  if (!source?.ranks) throw refuse('source_not_configured')
  return { ...source, ranks: source.ranks }
}

/** Where workspaces have no budget of their own, only whoever may use all of them spends the operator's money. */
export function requireBudget({ settings }: Source, isForAll: boolean): void {
  if (isForAll || settings.workspaceBudgetPerDay > 0) return
  throw refuseRequest('forbidden', {
    message: `Workspaces have no budget at ${settings.name} here: a token for all workspaces may track with it, or the operator sets ${settings.name.toUpperCase()}_WORKSPACE_BUDGET_PER_DAY.`,
  })
}

function requireAbility(ranks: RankSource, form: TrackerForm): void {
  const lacks = (
    code: 'engine_not_supported' | 'device_not_supported' | 'location_not_supported',
    path: string,
    known: readonly string[],
  ) =>
    refuse(code, {
      details: [{ path, code, message: `It knows ${known.join(', ')}.`, supported: [...known] }],
    })
  if (!ranks.engines.includes(form.engine)) throw lacks('engine_not_supported', 'engine', ranks.engines)
  if (ranks.devices && !ranks.devices.includes(form.device))
    throw lacks('device_not_supported', 'device', ranks.devices)
  // A place that the source does not know is never taken for another one: its ranks would be somebody else's.
  const places = ranks.locations?.(form.engine)
  if (places && !places.has(form.location)) throw lacks('location_not_supported', 'location', places.known)
  if (ranks.matches && !ranks.matches.includes(form.match))
    throw invalid('match', 'match_not_supported', `This source takes ${ranks.matches.join(', ')}.`)
  const deepest = ranks.deepest(form.engine)
  if (form.depth <= deepest) return
  const message = `It reaches to ${deepest} results.`
  throw refuse('depth_not_supported', {
    details: [{ path: 'depth', code: 'depth_not_supported', message, deepest }],
  })
}

function windowOf(app: BatchApp, given: TrackerForm['window']): Window {
  const { from = '00:00', to = '24:00', zone = app.timeZone } = given ?? {}
  if (!isZone(zone)) throw invalid('window.zone', 'not_a_zone', 'Name an IANA time zone such as Asia/Seoul.')
  if (from === to) throw invalid('window.to', 'empty_window', 'A window ends at another time than it begins.')
  return { from, to, zone }
}

/** Of several spellings the first one is kept. */
function distinct(keywords: readonly Keyword[]): Keyword[] {
  return [...new Map(keywords.toReversed().map((keyword) => [keyword.key, keyword])).values()].toReversed()
}

/** A change of the rhythm counts from now. A day that is planned already is not planned again. */
function daysOf(before: Tracker | undefined, every: Every, window: Window, now: Date) {
  const first = firstCheckDay(window, now)
  if (!before) return { anchorDay: first, nextDay: first }
  const isSame = before.every === every && JSON.stringify(before.window) === JSON.stringify(window)
  if (isSame) return { anchorDay: before.anchorDay, nextDay: before.nextDay }
  const anchorDay = before.every === every ? before.anchorDay : first
  const today = dayOf(now, window.zone)
  const isPlanned = before.nextDay > today
  return { anchorDay, nextDay: isPlanned ? dayAfter(anchorDay, every, today) : first }
}
