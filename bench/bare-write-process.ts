import type { AddressInfo } from 'node:net'
import fastify from 'fastify'
import pg from 'pg'
import type { Rank } from '../src/batch/ranks/rank.ts'
import { mergeRanks } from '../src/batch/ranks/rank-rows.ts'
import type { BatchTables } from '../src/batch/tables.ts'
import { openDb } from '../src/platform/database/db.ts'

/** The floor of a write: bare Fastify handlers doing one set-based statement. No token, no limit, no check, no log. */
const pool = new pg.Pool({ connectionString: process.env['DATABASE_URL'], max: 20 })
const db = openDb<BatchTables>(pool)
const http = fastify({ bodyLimit: 2 * 1024 * 1024 })

http.post('/keywords', async (request) => {
  const { workspace_id, keywords } = request.body as { workspace_id: string; keywords: string[] }
  const { rows } = await pool.query({
    name: 'bare',
    text: `
      with added as (
        insert into batch.keyword (workspace_id, key, display, created_at)
        select $1, k, k, now() from unnest($2::text[]) as k
        on conflict (workspace_id, key) do nothing
        returning 1
      )
      select count(*)::int as registered from added`,
    values: [workspace_id, keywords],
  })
  return { success: true, data: { registered: rows[0].registered } }
})

type Told = { keyword: string; day: string; device: string; position: number }

http.post('/ranks', async (request) => {
  const { workspace_id, observations } = request.body as { workspace_id: string; observations: Told[] }
  const now = new Date()
  const ranks = observations.map(
    ({ keyword, day, device, position }): Rank => ({
      key: keyword,
      day,
      engine: 'naver',
      device,
      location: 'KR',
      status: 'ranked',
      position,
      searchedDepth: 100,
      url: null,
      meanPosition: null,
      reason: null,
      checkedAt: now,
    }),
  )
  return { success: true, data: await mergeRanks(db, workspace_id, ranks, now) }
})

await http.listen({ host: '127.0.0.1', port: 0 })
process.send!({ port: (http.server.address() as AddressInfo).port })
