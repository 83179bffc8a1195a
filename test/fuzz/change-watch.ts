import type pg from 'pg'

export type Change = { readonly relation: string; readonly operation: string; readonly row: string }

export type ChangeWatch = {
  /** What was committed since the last look. */
  changes(): Promise<Change[]>
}

/**
 * Writes down every row that any table of the service gains, loses or changes, as part of the transaction that does it:
 * what was rolled back leaves no trace, and what was committed cannot hide.
 */
export async function watchChanges(pool: pg.Pool): Promise<ChangeWatch> {
  await pool.query(`
    create schema watch;
    create table watch.change (
      id         bigint generated always as identity primary key,
      relation   text not null,
      operation  text not null,
      row        text not null
    );
    create function watch.note() returns trigger language plpgsql as $$
    begin
      -- As jsonb, because plain json, which the queue's payloads are, cannot be compared. When a token was last used is
      -- noted now and then, whatever it is used for.
      if tg_op = 'UPDATE' and to_jsonb(new) - 'last_used_at' = to_jsonb(old) - 'last_used_at' then return null; end if;
      insert into watch.change (relation, operation, row)
      values (tg_table_schema || '.' || tg_table_name, lower(tg_op),
        left(to_jsonb(case when tg_op = 'DELETE' then old else new end)::text, 1000));
      return null;
    end $$;`)
  // A partition gets its trigger from the table it is part of.
  const { rows: tables } = await pool.query<{ name: string }>(`
    select format('%I.%I', n.nspname, c.relname) as name
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p') and not c.relispartition
      and n.nspname in ('billing', 'batch', 'platform', 'sandbox', 'graphile_worker')
      and n.nspname || '.' || c.relname <> all ('{platform.rate_window,graphile_worker.migrations}')`)
  // Counting a request is the one thing that every answer of the batch area may write.
  for (const { name } of tables)
    await pool.query(`create trigger watched after insert or update or delete on ${name}
                      for each row execute function watch.note()`)
  let seen = 0n
  return {
    async changes() {
      const { rows } = await pool.query<Change & { id: string }>({
        name: 'watch-changes',
        text: 'select id::text as id, relation, operation, row from watch.change where id > $1 order by id',
        values: [seen],
      })
      if (rows.length > 0) seen = BigInt(rows.at(-1)!.id)
      return rows.filter((change) => !isHousekeeping(change))
    },
  }
}

/** The provider forgets old keys once a minute, whoever asks what just then. */
function isHousekeeping({ relation, operation }: Change): boolean {
  return relation === 'sandbox.idempotency_key' && operation === 'delete'
}
