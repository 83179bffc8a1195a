// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these texts are source code
import type { PlantedBug } from '../simulation/planted-bugs.ts'

const story = 'test/batch/collecting.test.ts'
const rule = 'src/batch/tracking/make-check.test.ts'
const byHand = 'test/batch/checks-by-hand.test.ts'
const changed = 'test/batch/changed-tracker.test.ts'
const quality = 'test/batch/live-quality.test.ts'

/** Mistakes of trackers and of what is told from ranks, each with the test that must find it: `npm run plant -- --list trackers`. */
export const trackerBugs: readonly (PlantedBug & { story: string })[] = [
  {
    name: 'a check that is done is made again, and paid for again',
    file: 'src/batch/tracking/settle-checks.ts',
    from: "if (outcome.kind !== 'failed') return { ...place, status: 'done',",
    to: "if (outcome.kind !== 'failed') return { ...place, status: tries < 2 ? 'due' : 'done',",
    story: 'test/batch/tracking.test.ts',
  },
  {
    name: 'a failed page counts as not ranked',
    file: 'src/batch/tracking/make-check.ts',
    from: "if (answer.kind === 'failed') return { ...answer, calls: page + (answer.paid ? 1 : 0) }",
    to: "if (answer.kind === 'failed') return { kind: 'not_in_depth', depth: ask.depth, calls: page + 1 }",
    story,
  },
  {
    name: 'what was spent before a restart is forgotten',
    file: 'src/batch/tracking/claim-checks.ts',
    from: '=> (spending.get(scope)?.used ?? 0) + (taken',
    to: '=> (spending.get(scope) ? 0 : 0) + (taken',
    story,
  },
  {
    name: 'a slot lies outside the window',
    file: 'src/batch/tracking/check-rows.ts',
    from: "* (('x' || substr(md5(",
    to: "* 4 * (('x' || substr(md5(",
    story,
  },
  {
    name: 'a source that fails is asked on',
    file: 'src/batch/tracking/breaker.ts',
    from: 'const mostFailing = 0.3',
    to: 'const mostFailing = 30',
    story: 'src/batch/tracking/breaker.test.ts',
  },
  {
    name: 'the results of another device are believed',
    file: 'src/batch/sources/serp-family.ts',
    from: "typeof device === 'string' && device !== ask.device)",
    to: "typeof device === 'number' && device !== ask.device)",
    story,
  },
  {
    name: 'the depth that was asked for counts as read',
    file: 'src/batch/tracking/make-check.ts',
    from: 'depth: Math.max(1, seen.size), calls: mostCalls',
    to: 'depth: ask.depth, calls: mostCalls',
    story: rule,
  },
  {
    name: 'yesterday’s answer is told again',
    file: 'src/batch/tracking/make-check.ts',
    from: 'const answer = await source.readPage(ask, page)',
    to: 'const told: Record<string, Awaited<ReturnType<PageSource["readPage"]>>> = ((globalThis as never as { told: never }).told ??= {} as never)\n    const answer = (told[`${ask.keyword} ${page}`] ??= await source.readPage(ask, page))',
    story: 'test/batch/tracking.test.ts',
  },
  {
    name: 'a failure quotes the address it was sent to, with the key in it',
    file: 'src/batch/sources/serp-family.ts',
    from: 'return readSerpAnswer(dialect, ask, await fetchJson({ ...call, url: origin + path }))',
    to: 'const told = readSerpAnswer(dialect, ask, await fetchJson({ ...call, url: origin + path }))\n        return told.kind === "failed" ? { ...told, reason: `${told.reason}_${key}`.toLowerCase().replace(/[^a-z0-9]/g, "_") } : told',
    story,
  },
  {
    name: 'a dry check spends',
    file: 'src/batch/tracking/request-checks.ts',
    from: 'if (isDry) return',
    to: 'if (isDry && cost === 0) return',
    story,
  },
  {
    name: 'calls leave without waiting for their place',
    file: 'src/batch/tracking/pacer.ts',
    from: 'if (waitMs > 1) await sleep(waitMs)',
    to: 'if (waitMs > 1) await sleep(0)',
    story,
  },
  {
    name: 'a refused key is tried again and again',
    file: 'src/batch/tracking/breaker.ts',
    from: "find(({ of }) => of === 'credentials')",
    to: "find(({ of }) => of === 'credentials' && before.throttles > 9)",
    story,
  },
  {
    name: 'a pattern may repeat nothing as often as it likes',
    file: 'src/batch/tracking/linear-regex.ts',
    from: 'const mostParts = 2_500_000',
    to: 'const mostParts = 250_000_000',
    story: 'src/batch/tracking/site.test.ts',
  },
  {
    name: 'a pattern is matched by way of every empty alternative',
    file: 'src/batch/tracking/linear-regex.ts',
    from: 'nexts: [...new Set(tree.parts.map((part) => build(machine, part, next)))],',
    to: 'nexts: tree.parts.map((part) => build(machine, part, next)),',
    story: 'src/batch/tracking/site.test.ts',
  },
  {
    name: 'every repetition of a class asks all its members',
    file: 'src/batch/tracking/linear-regex.ts',
    from: 'if (before !== undefined) return before',
    to: 'if (before !== undefined && known.size === 0) return before',
    story: 'src/batch/tracking/site.test.ts',
  },
  {
    name: 'a check by hand that cannot go out starts a run every second',
    file: 'src/batch/tracking/check-rows.ts',
    from: "where status = 'due' and by_hand and due_at <= ${now} and reason is null)",
    to: "where status = 'due' and by_hand and due_at <= ${now})",
    story: byHand,
  },
  {
    name: 'a check by hand at a source that is gone starts a run every second',
    file: 'src/batch/tracking/collect-ranks.ts',
    from: 'await noteSeenByRun(tx, now)',
    to: 'await noteSeenByRun(tx, new Date(0))',
    story: byHand,
  },
  {
    name: 'a check is asked at a source that its tracker has left, with the settings for the new one',
    file: 'src/batch/tracking/check-rows.ts',
    from: 'and t.id = c.tracker_id and t.source = ${source}',
    to: 'and t.id = c.tracker_id',
    story: changed,
  },
  {
    name: 'a tracker that changes its source leaves the checks of its day behind',
    file: 'src/batch/tracking/put-tracker.ts',
    from: 'await moveToNewSource(tx, tracker)',
    to: 'if (before.source === tracker.source) await moveToNewSource(tx, tracker)',
    story: changed,
  },
  {
    name: 'what was under way when its tracker changed the source is never asked again',
    file: 'src/batch/tracking/collect-ranks.ts',
    from: 'await moveToNewSource(tx)',
    to: 'if (lost < 0) await moveToNewSource(tx)',
    story: changed,
  },
  {
    name: 'of two checks by hand at once one is told a run that does not exist',
    file: 'src/batch/tracking/request-checks.ts',
    from: 'if (!(await insertQueuedRun(tx, run))) return runForChecks(tx, now)',
    to: 'if (!(await insertQueuedRun(tx, run))) return runId',
    story: byHand,
  },
  {
    name: 'unknown keywords are counted without those that were sent twice',
    file: 'src/batch/tracking/request-checks.ts',
    from: 'const unknown = named.flatMap(',
    to: 'const unknown = keys.flatMap(',
    story: byHand,
  },
  {
    name: 'only the first unknown keyword is told',
    file: 'src/batch/tracking/request-checks.ts',
    from: '{ details: unknown })',
    to: '{ details: unknown.slice(0, 1) })',
    story: byHand,
  },
  {
    name: 'ranks that one workspace has of today, or of tomorrow, settle the predictions of another',
    file: 'src/batch/predictions/score-past-predictions.ts',
    from: 'return end + lateDays <= completeUntil || ',
    to: 'return end > 0 || ',
    story: quality,
  },
  {
    name: 'today counts as a day that is over',
    file: 'src/batch/dataset/last-complete-day.ts',
    from: 'app.timeZone), -1)',
    to: 'app.timeZone), 0)',
    story: quality,
  },
]
