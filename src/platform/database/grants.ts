import type pg from 'pg'

/**
 * The statements that let a role serve and work, and nothing more: it reads and writes rows, and changes neither the
 * schema nor what is kept for ever. Which tables those are is read from the schema itself: each has a trigger that
 * refuses the change, and a role without the right cannot even switch that off.
 */
export async function grantsFor(db: pg.Pool | pg.Client, role: string): Promise<string[]> {
  const { rows: tables } = await db.query<TableFound>(tablesQuery, [schemas, policyFor(role)])
  const { rows: made } = await db.query<{ name: string; database: string }>(
    `select nspname as name, current_database() as database from pg_namespace where nspname = any ($1) order by 1`,
    [schemas],
  )
  const to = quoted(role)
  const names = made.map(({ name }) => quoted(name)).join(', ')
  return [
    `grant connect, temporary on database ${quoted(made[0]?.database ?? 'rankledger')} to ${to};`,
    `grant usage on schema ${names} to ${to};`,
    `grant usage, select on all sequences in schema ${names} to ${to};`,
    `grant execute on all functions in schema ${names} to ${to};`,
    ...tables.flatMap((table) => grantsOn(table, role)),
  ]
}

const schemas = ['platform', 'billing', 'batch', 'sandbox', 'graphile_worker']

type TableFound = {
  schema: string
  table: string
  keeps_rows: boolean
  keeps_values: boolean
  hides_rows: boolean
  has_policy: boolean
}

// Bits of tgtype: 8 is delete, 16 is update.
const tablesQuery = `
  select n.nspname as schema, c.relname as table, c.relrowsecurity as hides_rows,
    exists (select from pg_policy p where p.polrelid = c.oid and p.polname = $2) as has_policy,
    coalesce(bool_or(t.tgtype & 8 = 8), false) as keeps_rows,
    coalesce(bool_or(t.tgtype & 16 = 16), false) as keeps_values
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  left join pg_trigger t on t.tgrelid = c.oid and t.tgfoid in (select oid from pg_proc where proname = 'refuse_change')
  where n.nspname = any ($1) and c.relkind in ('r', 'p', 'v') and not c.relispartition
  group by n.nspname, c.oid, c.relname, c.relrowsecurity
  order by 1, 2`

function grantsOn(table: TableFound, role: string): string[] {
  const name = nameOf(table)
  const to = quoted(role)
  return [
    `revoke all on ${name} from ${to};`,
    `grant ${rightsOn(table).join(', ')} on ${name} to ${to};`,
    // The queue's tables show their rows to their owner alone unless a policy says otherwise.
    ...(table.hides_rows && !table.has_policy
      ? [`create policy ${quoted(policyFor(role))} on ${name} to ${to} using (true) with check (true);`]
      : []),
  ]
}

function rightsOn(table: TableFound): string[] {
  const readOnly = table.table === 'migration' || table.table === 'migrations'
  return [
    'select',
    ...(readOnly ? [] : ['insert']),
    ...(readOnly || table.keeps_values ? [] : ['update']),
    ...(readOnly || table.keeps_rows ? [] : ['delete']),
  ]
}

function nameOf({ schema, table }: TableFound): string {
  return `${quoted(schema)}.${quoted(table)}`
}

export type RoleFound = {
  readonly role: string
  readonly superuser: boolean
  /** Whether it could change the schema, which a role that only serves need not. */
  readonly mayChangeSchema: boolean
  /** Rights that serving and working need and it lacks, such as `insert on "billing"."invoice"`. */
  readonly missing: readonly string[]
}

/** What the role of this connection may do, held against what the service needs. */
export async function lookAtRole(db: pg.Client): Promise<RoleFound> {
  const { rows } = await db.query<{ role: string; superuser: boolean; owner: boolean }>(
    `select current_user as role, (select rolsuper from pg_roles where rolname = current_user) as superuser,
       has_database_privilege(current_database(), 'create') as owner`,
  )
  const { role, superuser, owner } = rows[0]!
  const { rows: tables } = await db.query<TableFound>(tablesQuery, [schemas, policyFor(role)])
  const needed = tables.flatMap((table) =>
    rightsOn(table).map((right) => ({ name: nameOf(table), right, text: `${right} on ${nameOf(table)}` })),
  )
  const { rows: lacking } = await db.query<{ at: number }>(
    `select n.at::int from unnest($1::text[], $2::text[]) with ordinality as n (name, "right", at)
     where not has_schema_privilege(split_part(replace(n.name, '"', ''), '.', 1), 'usage')
       or not has_table_privilege(n.name, n."right")`,
    [needed.map(({ name }) => name), needed.map(({ right }) => right)],
  )
  return {
    role,
    superuser,
    mayChangeSchema: owner,
    missing: lacking.map(({ at }) => needed[at - 1]!.text),
  }
}

function policyFor(role: string): string {
  return `rankledger_${role}`
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
