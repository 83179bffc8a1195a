import { sql } from 'kysely'
import type { BatchDb, BatchTx } from '../app.ts'
import type { ClassName } from '../models/manifest.ts'
import type { SeriesName } from '../training/history.ts'

/** What a model expects of a keyword. */
export type Prediction = {
  keyword: string
  /** What was known up to the end of this day is what it was told from. */
  day: string
  horizonDays: number
  probabilities: Record<ClassName, number>
  predicted: ClassName
  modelId: string
}

export type NewPrediction = SeriesName & {
  day: string
  probabilities: Record<ClassName, number>
  predicted: ClassName
}

/** Stores predictions. One told again from the same day takes the place of the earlier one, which never came due. */
export async function storePredictions(
  tx: BatchTx,
  modelId: string,
  horizonDays: number,
  predictions: readonly NewPrediction[],
  now: Date,
): Promise<void> {
  const column = <T>(pick: (prediction: NewPrediction) => T) => predictions.map(pick)
  await sql`
    insert into batch.prediction (workspace_id, keyword_id, day, model_id, horizon_days, rise, hold, fall, predicted,
                                  engine, device, location, predicted_at)
    select workspace_id, keyword_id, day, ${modelId}, ${horizonDays}, rise, hold, fall, predicted, engine, device,
           location, ${now}
    from unnest(${column((one) => one.workspaceId)}::text[], ${column((one) => one.keywordId)}::bigint[],
                ${column((one) => one.day)}::date[], ${column((one) => one.probabilities.rise)}::float8[],
                ${column((one) => one.probabilities.hold)}::float8[], ${column((one) => one.probabilities.fall)}::float8[],
                ${column((one) => one.predicted)}::text[], ${column((one) => one.engine)}::text[],
                ${column((one) => one.device)}::text[], ${column((one) => one.location)}::text[])
      as p (workspace_id, keyword_id, day, rise, hold, fall, predicted, engine, device, location)
    order by workspace_id, keyword_id
    on conflict (workspace_id, keyword_id, day) do update
      set model_id = excluded.model_id, horizon_days = excluded.horizon_days, rise = excluded.rise, hold = excluded.hold,
          fall = excluded.fall, predicted = excluded.predicted, engine = excluded.engine, device = excluded.device,
          location = excluded.location, predicted_at = excluded.predicted_at
  `.execute(tx)
}

/** The newest prediction of a keyword that is registered. */
export async function findPrediction(
  db: BatchDb,
  workspaceId: string,
  key: string,
): Promise<Prediction | undefined> {
  const row = await db
    .selectFrom('batch.keyword as k')
    .innerJoin('batch.prediction as p', (join) =>
      join.onRef('p.workspace_id', '=', 'k.workspace_id').onRef('p.keyword_id', '=', 'k.id'),
    )
    .select([
      'k.display',
      'p.day',
      'p.horizon_days',
      'p.rise',
      'p.hold',
      'p.fall',
      'p.predicted',
      'p.model_id',
    ])
    .where('k.workspace_id', '=', workspaceId)
    .where('k.key', '=', key)
    .where('k.removed_at', 'is', null)
    .orderBy('p.day', 'desc')
    .limit(1)
    .executeTakeFirst()
  if (!row) return undefined
  return {
    keyword: row.display,
    day: row.day,
    horizonDays: row.horizon_days,
    probabilities: { rise: row.rise, hold: row.hold, fall: row.fall },
    predicted: row.predicted,
    modelId: row.model_id,
  }
}

/** A prediction whose horizon has passed. */
export type OpenPrediction = SeriesName & {
  day: string
  horizonDays: number
  probabilities: Record<ClassName, number>
}

export type KeywordRange = Record<'first' | 'last', Pick<SeriesName, 'workspaceId' | 'keywordId'>>

/** Of some keywords, behind the place given, in the order of day, workspace and keyword. */
export async function listOpenPredictions(
  db: BatchDb,
  lastDay: string,
  { first, last }: KeywordRange,
  after: OpenPrediction | undefined,
  limit: number,
): Promise<OpenPrediction[]> {
  const { rows } = await sql<OpenPrediction & Record<ClassName, number>>`
    select workspace_id as "workspaceId", keyword_id as "keywordId", day, horizon_days as "horizonDays", engine, device,
           location, rise, hold, fall
    from batch.prediction
    where day + horizon_days <= ${lastDay}::date
      and (workspace_id, keyword_id) >= (${first.workspaceId}, ${first.keywordId}::bigint)
      and (workspace_id, keyword_id) <= (${last.workspaceId}, ${last.keywordId}::bigint)
      and (day, workspace_id, keyword_id) >
        (${after?.day ?? '0001-01-01'}::date, ${after?.workspaceId ?? ''}, ${after?.keywordId ?? 0n}::bigint)
    order by day, workspace_id, keyword_id
    limit ${limit}`.execute(db)
  return rows.map(({ rise, hold, fall, ...row }) => ({ ...row, probabilities: { rise, hold, fall } }))
}

export type Outcome = Pick<OpenPrediction, 'workspaceId' | 'keywordId' | 'day'> & { loss: number }

/**
 * Adds outcomes to the live quality of the models that foretold them, and takes the predictions away: each counts
 * once, whoever looks how often.
 */
export async function settleOutcomes(tx: BatchTx, outcomes: readonly Outcome[]): Promise<void> {
  await sql`
    with settled as (
      delete from batch.prediction p
      using unnest(${outcomes.map((one) => one.workspaceId)}::text[], ${outcomes.map((one) => one.keywordId)}::bigint[],
                   ${outcomes.map((one) => one.day)}::date[], ${outcomes.map((one) => one.loss)}::float8[])
        as o (workspace_id, keyword_id, day, loss)
      where p.workspace_id = o.workspace_id and p.keyword_id = o.keyword_id and p.day = o.day
      returning p.model_id, p.day, o.loss
    ),
    by_model as (
      select model_id, count(*)::int as examples, sum(loss) as loss, max(day) as until from settled group by model_id
    )
    update batch.model m
    set live_examples = m.live_examples + b.examples,
        live_log_loss = (coalesce(m.live_log_loss, 0) * m.live_examples + b.loss) / (m.live_examples + b.examples),
        live_until = greatest(m.live_until, b.until)
    from by_model b
    where b.model_id = m.id`.execute(tx)
}

/** Forgets predictions whose outcome nobody has told for so long, but never the newest of a keyword. */
export async function forgetPredictions(tx: BatchTx, before: string): Promise<void> {
  await sql`
    delete from batch.prediction p
    where p.day < ${before}::date and exists (
      select from batch.prediction newer
      where newer.workspace_id = p.workspace_id and newer.keyword_id = p.keyword_id and newer.day > p.day
    )`.execute(tx)
}
