import { type RawBuilder, sql } from 'kysely'
import type { BatchDb, BatchTx } from '../app.ts'
import type { RunTask } from '../runs/run.ts'
import type { LiveQuality, Manifest, ModelStatus, RegisteredModel, Samples } from './manifest.ts'

export type NewModel = {
  id: string
  task: RunTask
  runId: string
  manifest: Manifest
  artifact: Uint8Array
  judged: Uint8Array
  judgedSha256: string
  samples: Samples
  createdAt: Date
}

/** Stores a candidate with the next version of its task; says which. Two at once would break the unique key. */
export async function insertCandidate(tx: BatchTx, model: NewModel): Promise<number> {
  const { rows } = await sql<{ version: number }>`
    insert into batch.model (id, task, version, status, status_history, run_id, manifest, artifact, artifact_sha256,
                             judged, judged_sha256, samples, created_at)
    select ${model.id}, ${model.task}, coalesce(max(version), 0) + 1, 'candidate',
           jsonb_build_array(jsonb_build_object('status', 'candidate', 'at', ${model.createdAt.toISOString()}::text)),
           ${model.runId}, ${JSON.stringify(model.manifest)}::jsonb, ${Buffer.from(model.artifact)},
           ${model.manifest.artifact.sha256}, ${Buffer.from(model.judged)}, ${model.judgedSha256},
           ${JSON.stringify(model.samples)}::jsonb, ${model.createdAt}
    from batch.model where task = ${model.task}
    returning version`.execute(tx)
  return rows[0]!.version
}

/** The hash of an artifact as the database holds it, worked out there. */
export async function hashStoredArtifact(db: BatchDb | BatchTx, id: string): Promise<string | undefined> {
  const { rows } = await sql<{ hash: string | null }>`
    select encode(sha256(artifact), 'hex') as hash from batch.model where id = ${id}`.execute(db)
  return rows[0]?.hash ?? undefined
}

/** Moves a model to another status and writes that into its history. */
export async function setModelStatus(tx: BatchTx, id: string, status: ModelStatus, now: Date): Promise<void> {
  await sql`
    update batch.model
    set status = ${status}, revision = revision + 1,
        status_history = status_history
          || jsonb_build_object('status', ${status}::text, 'at', ${now.toISOString()}::text),
        activated_at = case when ${status} = 'active' then ${now} else activated_at end
    where id = ${id}`.execute(tx)
}

/** Of the retired and of the rejected, so many keep their bytes. */
const keptOfEach = 5

/**
 * Takes the bytes of models away that nobody will use again: of the retired and of the rejected all but the newest, by
 * the time they became so. What they were and how they did stays.
 */
export async function pruneModels(tx: BatchTx, task: RunTask): Promise<void> {
  await sql`
    with aged as (
      select id, row_number() over (partition by status order by status_history -> -1 ->> 'at' desc, version desc) as age
      from batch.model
      where task = ${task} and status in ('retired', 'rejected') and artifact is not null
    )
    update batch.model m
    set artifact = null, judged = null, revision = revision + 1
    from aged
    where aged.id = m.id and aged.age > ${keptOfEach}`.execute(tx)
}

/** Models whose bytes are stored, with the number of their last change. */
export async function listRevisions(db: BatchDb): Promise<{ id: string; revision: number }[]> {
  return db
    .selectFrom('batch.model')
    .select(['id', 'revision'])
    .where('artifact', 'is not', null)
    .orderBy('id')
    .limit(1_000)
    .execute()
}

/** The active model's id. Whoever activates or retires waits here for the one before, also if none is active. */
export async function lockActive(tx: BatchTx, task: RunTask): Promise<string | undefined> {
  await sql`select pg_advisory_xact_lock(hashtext(${`batch.model ${task}`}))`.execute(tx)
  return (await findActive(tx, task))?.id
}

/** Every active model of a task. The schema allows one; `check-model` does not take its word for it. */
export async function listActive(db: BatchDb | BatchTx, task: RunTask): Promise<RegisteredModel[]> {
  const rows = await selectModels(db)
    .where('task', '=', task)
    .where('status', '=', 'active')
    .limit(2)
    .execute()
  return rows.map(toModel)
}

export async function findActive(db: BatchDb | BatchTx, task: RunTask): Promise<RegisteredModel | undefined> {
  return (await listActive(db, task))[0]
}

export async function findModel(db: BatchDb | BatchTx, id: string): Promise<RegisteredModel | undefined> {
  const row = await selectModels(db).where('id', '=', id).executeTakeFirst()
  return row && toModel(row)
}

/** Models, newest first: ids are in the order of their making. */
export async function listModels(
  db: BatchDb,
  filter: {
    task: RunTask | undefined
    status: ModelStatus | undefined
    before: string | undefined
    limit: number
  },
): Promise<RegisteredModel[]> {
  let query = selectModels(db).orderBy('id', 'desc').limit(filter.limit)
  if (filter.task !== undefined) query = query.where('task', '=', filter.task)
  if (filter.status !== undefined) query = query.where('status', '=', filter.status)
  if (filter.before !== undefined) query = query.where('id', '<', filter.before)
  return (await query.execute()).map(toModel)
}

export type StoredArtifact = { bytes: Buffer; sha256: string }

/** Undefined: it was pruned. */
export async function findArtifact(db: BatchDb, id: string): Promise<StoredArtifact | undefined> {
  const row = await db
    .selectFrom('batch.model')
    .select(['artifact', 'artifact_sha256'])
    .where('id', '=', id)
    .executeTakeFirstOrThrow()
  return row.artifact === null ? undefined : { bytes: row.artifact, sha256: row.artifact_sha256 }
}

/** The model as the gate saw it. Undefined: it was pruned. */
export async function findJudged(db: BatchDb, id: string): Promise<StoredArtifact | undefined> {
  const row = await db
    .selectFrom('batch.model')
    .select(['judged', 'judged_sha256'])
    .where('id', '=', id)
    .executeTakeFirstOrThrow()
  return row.judged === null ? undefined : { bytes: row.judged, sha256: row.judged_sha256 }
}

export async function getSamples(db: BatchDb, id: string): Promise<Samples> {
  const row = await db
    .selectFrom('batch.model')
    .select('samples')
    .where('id', '=', id)
    .executeTakeFirstOrThrow()
  return row.samples as unknown as Samples
}

const recentDays = 28

/** With the losses of past predictions: all of them, and those of the last days before the newest. */
function selectModels(db: BatchDb | BatchTx) {
  return db
    .selectFrom('batch.model')
    .select([
      'id',
      'task',
      'version',
      'status',
      'status_history',
      'run_id',
      'manifest',
      'revision',
      'created_at',
      'activated_at',
      sql<boolean>`artifact is not null`.as('stored'),
      liveOf(sql`true`).as('live'),
      liveOf(
        sql`l.day > (select max(day) from batch.live_quality n where n.model_id = model.id) - ${sql.lit(recentDays)}`,
      ).as('recent'),
    ])
}

type LiveRow = { examples: number; loss: number; prior: number; naive: number; until: string | null }

function liveOf(which: RawBuilder<unknown>) {
  return sql<LiveRow>`(
    select jsonb_build_object('examples', coalesce(sum(l.examples), 0), 'loss', sum(l.loss), 'prior', sum(l.prior_loss),
                              'naive', sum(l.naive_loss), 'until', max(l.day))
    from batch.live_quality l where l.model_id = model.id and ${which}
  )`
}

type ModelRow = Awaited<ReturnType<ReturnType<typeof selectModels>['execute']>>[number]

function toModel(row: ModelRow): RegisteredModel {
  const live = toLive(row.live)
  const recent = toLive(row.recent)
  return {
    id: row.id,
    task: row.task,
    version: row.version,
    status: row.status,
    statusHistory: row.status_history,
    runId: row.run_id,
    manifest: row.manifest as unknown as Manifest,
    createdAt: row.created_at,
    activatedAt: row.activated_at,
    revision: row.revision,
    stored: row.stored,
    live: live && recent ? { ...live, recent } : null,
  }
}

function toLive({ examples, loss, prior, naive, until }: LiveRow): LiveQuality | undefined {
  if (until === null) return undefined
  return {
    examples,
    logLoss: loss / examples,
    priorLogLoss: prior / examples,
    naiveLogLoss: naive / examples,
    until,
  }
}
