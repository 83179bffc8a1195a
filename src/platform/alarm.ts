import { type QueryExecutorProvider, sql } from 'kysely'

/**
 * Something only a person can put right. It is seen in the log, the metrics and `rankledger db alarms` until the code
 * that raised it sees it gone, or an operator clears it.
 */
export type Alarm = {
  readonly kind: string
  readonly subject: string
  readonly note: string
  readonly raisedAt: Date
  readonly lastAt: Date
  readonly count: number
}

/** Raises an alarm, or counts it once more. The note says what to do, without secrets or personal data. */
export async function raiseAlarm(
  db: QueryExecutorProvider,
  alarm: Pick<Alarm, 'kind' | 'subject' | 'note'>,
  now: Date,
): Promise<void> {
  await sql`
    insert into platform.alarm as a (kind, subject, note, raised_at, last_at)
    values (${alarm.kind}, ${alarm.subject}, ${alarm.note}, ${now}, ${now})
    on conflict (kind, subject) do update
      set note = excluded.note, last_at = excluded.last_at, count = a.count + 1`.execute(db)
}

/** False: there was no such alarm. */
export async function clearAlarm(db: QueryExecutorProvider, kind: string, subject: string): Promise<boolean> {
  const cleared = await sql`
    delete from platform.alarm where kind = ${kind} and subject = ${subject} returning kind`.execute(db)
  return cleared.rows.length > 0
}

/** Clears the alarms of some kinds, about some subjects or about all. */
export async function clearAlarms(
  db: QueryExecutorProvider,
  kinds: readonly string[],
  subjects?: readonly string[],
): Promise<void> {
  const about = subjects === undefined ? sql`` : sql`and subject = any (${[...subjects]})`
  await sql`delete from platform.alarm where kind = any (${[...kinds]}) ${about}`.execute(db)
}

/** Newest first. */
export async function listAlarms(db: QueryExecutorProvider, limit: number): Promise<Alarm[]> {
  const found = await sql<Alarm>`
    select kind, subject, note, raised_at as "raisedAt", last_at as "lastAt", count
    from platform.alarm order by raised_at desc, kind, subject limit ${limit}`.execute(db)
  return found.rows
}

export async function countAlarms(db: QueryExecutorProvider): Promise<Record<string, number>> {
  const found = await sql<{ kind: string; count: number }>`
    select kind, count(*)::int as count from platform.alarm group by kind order by kind`.execute(db)
  return Object.fromEntries(found.rows.map(({ kind, count }) => [kind, count]))
}

/** Takes the alarms that nobody has written to a log so far; each is given to one caller only. */
export async function claimUnlogged(db: QueryExecutorProvider): Promise<{ kind: string; subject: string }[]> {
  const claimed = await sql<{ kind: string; subject: string }>`
    update platform.alarm set logged = true where not logged returning kind, subject`.execute(db)
  return claimed.rows
}
