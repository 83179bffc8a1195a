import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { History } from '../simulation/history.ts'
import type { Fleet } from './fleet.ts'

/** Keeps what a run leaves behind, for whoever has to find out what went wrong: all outputs, all that was said, all rows. */
export async function keepEvidence(folder: string, fleet: Fleet, history: History): Promise<void> {
  mkdirSync(folder, { recursive: true })
  const write = (name: string, value: unknown) =>
    writeFileSync(join(folder, `${name}.json`), JSON.stringify(value, plain, 1))
  for (const member of fleet.members)
    writeFileSync(join(folder, `${member.name}.log`), member.outputs().join('\n'))
  writeFileSync(join(folder, 'postgres.log'), await fleet.database.serverLog())
  write('history', history.entries)
  const { observer } = fleet.database
  const { rows: tables } = await observer.query<{ name: string }>(
    `select format('%I.%I', schemaname, tablename) as name from pg_tables
     where schemaname in ('billing', 'sandbox', 'platform', 'graphile_worker') order by 1`,
  )
  for (const { name } of tables) write(name, (await observer.query(`select * from ${name}`)).rows)
}

function plain(_name: string, value: unknown): unknown {
  return typeof value === 'bigint' ? `${value}` : value
}
