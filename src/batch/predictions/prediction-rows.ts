import { sql } from 'kysely'
import type { Day } from '../../platform/time.ts'
import type { BatchDb, BatchTx } from '../app.ts'
import type { SeriesName } from '../dataset/history.ts'
import type { ClassName, Manifest } from '../models/manifest.ts'

type SeriesParts = Pick<SeriesName, 'engine' | 'device' | 'location'>

/** A feature that moved a prediction, and by how much: positive is towards what was predicted. */
export type Reason = { feature: string; contribution: number }

/** What a model expects of a series, and what came true. */
export type Prediction = SeriesParts & {
  keyword: string
  /** The prediction was made from what was known at the end of this day. */
  day: string
  horizonDays: number
  probabilities: Record<ClassName, number>
  predicted: ClassName
  reasons: Reason[]
  modelId: string
  /** Null: the horizon has not passed, or the rank at its end is not known. */
  outcome: ClassName | null
}

export type NewPrediction = {
  series: SeriesName
  day: string
  probabilities: Record<ClassName, number>
  predicted: ClassName
  usableDays: number
  /** Which way the model's naive rule expected the rank to go. */
  naiveSign: number
  /** At most three, the strongest first. */
  reasons: Reason[]
}

/** Who predicts how far, and when. */
export type SayingNow = { modelId: string; horizonDays: number; lastCompleteDay: Day; now: Date }

/**
 * Stores predictions. One made again for the same day replaces the earlier one, unless the days that it speaks of are over by
 * `lastCompleteDay` or its outcome is known: a model that has learnt since from those days has nothing left to predict of them.
 */
export async function storePredictions(
  tx: BatchTx,
  { modelId, horizonDays, lastCompleteDay, now }: SayingNow,
  predictions: readonly NewPrediction[],
): Promise<void> {
  const column = <T>(pick: (prediction: NewPrediction) => T) => predictions.map(pick)
  // Lists of lists have to be of one length in PostgreSQL, so the first reasons travel as one list, the second as another.
  const feature = (n: number) => sql`${column((one) => one.reasons[n]?.feature ?? null)}::text[]`
  const contribution = (n: number) => sql`${column((one) => one.reasons[n]?.contribution ?? null)}::float8[]`
  // Over several machines a parameter in what a conflict does finds its type only within a CTE.
  await sql`
    with stored as (
    insert into batch.prediction as p (workspace_id, keyword_id, engine, device, location, day, model_id, horizon_days, rise,
                                       hold, fall, predicted, usable_days, naive_sign, features, contributions, predicted_at)
    select g.workspace_id, g.keyword_id, g.engine, g.device, g.location, g.day, ${modelId}, ${horizonDays}, g.rise, g.hold,
           g.fall, g.predicted, g.usable_days, g.naive_sign,
           array_remove(array[g.feature_1, g.feature_2, g.feature_3], null),
           array_remove(array[g.contribution_1, g.contribution_2, g.contribution_3], null),
           ${now}
    from unnest(${column(({ series }) => series.workspaceId)}::text[], ${column(({ series }) => series.keywordId)}::bigint[],
                ${column(({ series }) => series.engine)}::text[], ${column(({ series }) => series.device)}::text[],
                ${column(({ series }) => series.location)}::text[], ${column((one) => one.day)}::date[],
                ${column((one) => one.probabilities.rise)}::float8[], ${column((one) => one.probabilities.hold)}::float8[],
                ${column((one) => one.probabilities.fall)}::float8[], ${column((one) => one.predicted)}::text[],
                ${column((one) => one.usableDays)}::int[], ${column((one) => one.naiveSign)}::int[],
                ${feature(0)}, ${feature(1)}, ${feature(2)}, ${contribution(0)}, ${contribution(1)}, ${contribution(2)})
      as g (workspace_id, keyword_id, engine, device, location, day, rise, hold, fall, predicted, usable_days, naive_sign,
            feature_1, feature_2, feature_3, contribution_1, contribution_2, contribution_3)
    order by g.workspace_id, g.keyword_id, g.engine, g.device, g.location
    on conflict (workspace_id, keyword_id, engine, device, location, day) do update
      set model_id = excluded.model_id, horizon_days = excluded.horizon_days, rise = excluded.rise, hold = excluded.hold,
          fall = excluded.fall, predicted = excluded.predicted, usable_days = excluded.usable_days,
          naive_sign = excluded.naive_sign, features = excluded.features, contributions = excluded.contributions,
          predicted_at = excluded.predicted_at
      where p.outcome is null and p.day + p.horizon_days > ${lastCompleteDay}::date
    returning 1)
    select count(*) from stored`.execute(tx)
}

export type SeriesFilter = {
  engine?: string | undefined
  device?: string | undefined
  location?: string | undefined
}

type PredictionRow = SeriesParts & {
  display: string
  day: string
  horizon_days: number
  rise: number
  hold: number
  fall: number
  predicted: ClassName
  features: string[]
  contributions: number[]
  model_id: string
  outcome: ClassName | null
}

/**
 * The newest prediction of a keyword that is registered. Of several series that fit, it is that of the one with most usable
 * days, then of the newest day, then the first by engine, device and location.
 */
export async function findPrediction(
  db: BatchDb,
  workspaceId: string,
  key: string,
  { engine, device, location }: SeriesFilter,
): Promise<Prediction | undefined> {
  const { rows } = await sql<PredictionRow>`
    select * from (
      select distinct on (p.engine, p.device, p.location) k.display, p.*
      from batch.keyword k
      join batch.prediction p on p.workspace_id = k.workspace_id and p.keyword_id = k.id
      where k.workspace_id = ${workspaceId} and k.key = ${key} and k.removed_at is null
        and (${engine ?? null}::text is null or p.engine = ${engine ?? null})
        and (${device ?? null}::text is null or p.device = ${device ?? null})
        and (${location ?? null}::text is null or p.location = ${location ?? null})
      order by p.engine, p.device, p.location, p.day desc
    ) newest
    order by usable_days desc, day desc, engine, device, location
    limit 1`.execute(db)
  return rows[0] && toPrediction(rows[0])
}

/** The predictions of one series, newest first, before the day given. */
export async function listPredictions(
  db: BatchDb,
  workspaceId: string,
  key: string,
  { engine, device, location }: SeriesParts,
  before: string | undefined,
  limit: number,
): Promise<Prediction[]> {
  const { rows } = await sql<PredictionRow>`
    select k.display, p.*
    from batch.keyword k
    join batch.prediction p on p.workspace_id = k.workspace_id and p.keyword_id = k.id
    where k.workspace_id = ${workspaceId} and k.key = ${key} and k.removed_at is null
      and p.engine = ${engine} and p.device = ${device} and p.location = ${location}
      and p.day < ${before ?? 'infinity'}::date
    order by p.day desc
    limit ${limit}`.execute(db)
  return rows.map(toPrediction)
}

function toPrediction(row: PredictionRow): Prediction {
  return {
    keyword: row.display,
    engine: row.engine,
    device: row.device,
    location: row.location,
    day: row.day,
    horizonDays: row.horizon_days,
    probabilities: { rise: row.rise, hold: row.hold, fall: row.fall },
    predicted: row.predicted,
    reasons: row.features.map((feature, at) => ({ feature, contribution: row.contributions[at]! })),
    modelId: row.model_id,
    outcome: row.outcome,
  }
}

/** A prediction whose horizon has passed, and whose outcome is not known. */
export type OpenPrediction = SeriesName & {
  day: string
  modelId: string
  horizonDays: number
  probabilities: Record<ClassName, number>
  naiveSign: number
}

/** Which open predictions to look at: of the series from `first` to `last`, made on `firstDay` or later, due by `lastDay`. */
export type ScoredSpan = { firstDay: string; lastDay: string; first: SeriesName; last: SeriesName }

/** Open predictions that follow the one given, in the order of series and day. */
export async function listOpenPredictions(
  db: BatchDb,
  { firstDay, lastDay, first, last }: ScoredSpan,
  after: OpenPrediction | undefined,
  limit: number,
): Promise<OpenPrediction[]> {
  const series = sql`(workspace_id, keyword_id, engine, device, location)`
  const named = (one: SeriesName) =>
    sql`(${one.workspaceId}, ${one.keywordId}::bigint, ${one.engine}, ${one.device}, ${one.location})`
  const start = after ?? { ...first, day: '0001-01-01' }
  const { rows } = await sql<OpenPrediction & Record<ClassName, number>>`
    select workspace_id as "workspaceId", keyword_id as "keywordId", day, model_id as "modelId",
           horizon_days as "horizonDays", engine, device, location, rise, hold, fall, naive_sign as "naiveSign"
    from batch.prediction
    where outcome is null and day >= ${firstDay}::date and day + horizon_days <= ${lastDay}::date
      and ${series} <= ${named(last)}
      and (workspace_id, keyword_id, engine, device, location, day) >
        (${start.workspaceId}, ${start.keywordId}::bigint, ${start.engine}, ${start.device}, ${start.location},
         ${start.day}::date)
    order by workspace_id, keyword_id, engine, device, location, day
    limit ${limit}`.execute(db)
  return rows.map(({ rise, hold, fall, ...row }) => ({ ...row, probabilities: { rise, hold, fall } }))
}

/** The rules that each of these models was compared with when it was judged. */
export async function listRivals(
  db: BatchDb,
  modelIds: readonly string[],
): Promise<Map<string, Manifest['rivals']>> {
  const { rows } = await sql<{ id: string; rivals: Manifest['rivals'] }>`
    select id, manifest -> 'rivals' as rivals from batch.model where id = any(${modelIds}::text[])`.execute(
    db,
  )
  return new Map(rows.map(({ id, rivals }) => [id, rivals]))
}

export type Outcome = SeriesName & {
  day: string
  outcome: ClassName
  /** Log-losses of the model, of class shares and of the naive rule. */
  loss: number
  priorLoss: number
  naiveLoss: number
}

/**
 * Writes outcomes down and adds them to the live quality of the models that predicted them; each counts once. What was said only
 * after the last of its days, of ranks that came late, counts nowhere.
 */
export async function settleOutcomes(
  tx: BatchTx,
  outcomes: readonly Outcome[],
  { now, timeZone }: { now: Date; timeZone: string },
): Promise<void> {
  const column = <T>(pick: (outcome: Outcome) => T) => outcomes.map(pick)
  await sql`
    with settled as (
      update batch.prediction p
      set outcome = o.outcome, settled_at = ${now}
      from unnest(${column((one) => one.workspaceId)}::text[], ${column((one) => one.keywordId)}::bigint[],
                  ${column((one) => one.engine)}::text[], ${column((one) => one.device)}::text[],
                  ${column((one) => one.location)}::text[], ${column((one) => one.day)}::date[],
                  ${column((one) => one.outcome)}::text[], ${column((one) => one.loss)}::float8[],
                  ${column((one) => one.priorLoss)}::float8[], ${column((one) => one.naiveLoss)}::float8[])
        as o (workspace_id, keyword_id, engine, device, location, day, outcome, loss, prior_loss, naive_loss)
      where (p.workspace_id, p.keyword_id, p.engine, p.device, p.location, p.day) =
        (o.workspace_id, o.keyword_id, o.engine, o.device, o.location, o.day) and p.outcome is null
      returning p.model_id, p.day, o.loss, o.prior_loss, o.naive_loss,
                p.predicted_at < (p.day + p.horizon_days + 1)::timestamp at time zone ${timeZone} as predicted_in_time
    ),
    added as (
      insert into batch.live_quality as q (model_id, day, examples, loss, prior_loss, naive_loss)
      select model_id, day, count(*)::int, sum(loss), sum(prior_loss), sum(naive_loss)
      from settled where predicted_in_time group by model_id, day order by model_id, day
      on conflict (model_id, day) do update
        set examples = q.examples + excluded.examples, loss = q.loss + excluded.loss,
            prior_loss = q.prior_loss + excluded.prior_loss, naive_loss = q.naive_loss + excluded.naive_loss
    )
    update batch.model set revision = revision + 1 where id in (select model_id from settled where predicted_in_time)`.execute(
    tx,
  )
}

/** Deletes the predictions of days before the one given, but never the newest of a series. */
export async function forgetPredictions(tx: BatchTx, before: string): Promise<void> {
  await sql`
    delete from batch.prediction p
    where p.day < ${before}::date and exists (
      select from batch.prediction newer
      where (newer.workspace_id, newer.keyword_id, newer.engine, newer.device, newer.location) =
        (p.workspace_id, p.keyword_id, p.engine, p.device, p.location) and newer.day > p.day
    )`.execute(tx)
}
