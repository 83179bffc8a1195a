/** What grows by what it is for, each by words of its own, and why that may be. docs/scaling.md tells of those that matter. */
export const knownToGrow: Readonly<Record<string, string>> = {
  'as usable from batch.rank':
    'how many ranks there are, for whoever starts a run, for a training and for the summary of batch',
  'select from batch.keyword where removed_at is null limit':
    'how many keywords all workspaces have, up to a million, for the summary of batch',
  'interval_unit as unit, interval_count as every, count(*)':
    'the summary over all accounts, made once in some seconds by a process, however many ask',
  'as day, currency, count(*)::int as charges': 'the same',
  'delete from platform.rate_window':
    'each minute forgets buckets that nobody used for ten minutes: these are the workspaces of ten minutes',
  'as "checkedToday"': "a tracker's own checks of its day, for whoever looks at it",
  'select min(at) as at from ( select min(next_plan_at)': 'where a move of the sandbox clock is to stop next',
  'with dropped as ( update batch.rank_order': 'the orders that wait at a source, which are those of an hour',
  'delete from sandbox.idempotency_key':
    "the sandbox's keys, found by ranges of pages: this table is but a few",
  'select count(*) as "count" from "batch"."dirty_month"':
    'how many months a night has to work out, to show how far it is',
  'as hash from batch.keyword':
    'keywords a source was not asked for this month, in an order of its own, ten thousand at a time: as its calls allow',
  'as day, count(*)::int as ranks from batch.rank': 'training and scoring read the history',
  'as packed from batch.rank': 'the same',
  'join (select key, source, month, at_month_end as volume':
    'the same, the volumes of some thousand series at a time',
  'from batch.prediction where outcome is null': 'the same, what was said of some thousand series',
}

/** What is read by hundreds of keys at a time. From so small a table all at once is cheaper; from a larger one it is not. */
export const cheaperWhole = [
  'join batch.volume_observation o on',
  'delete from batch.dirty_month d using unnest',
]
