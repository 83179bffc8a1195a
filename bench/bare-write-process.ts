import type { AddressInfo } from 'node:net'
import fastify from 'fastify'
import pg from 'pg'

/** The floor of a write: bare Fastify handlers doing one set-based statement. No token, no limit, no check, no log. */
const pool = new pg.Pool({ connectionString: process.env['DATABASE_URL'], max: 20 })
const http = fastify({ bodyLimit: 2 * 1024 * 1024 })

http.post('/keywords', async (request) => {
  const { workspace_id, keywords } = request.body as { workspace_id: string; keywords: string[] }
  const { rows } = await pool.query({
    name: 'bare-keywords',
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
  const { rowCount } = await pool.query({
    name: 'bare-ranks',
    text: `
      insert into batch.rank
        (workspace_id, keyword_id, day, engine, device, location, status, position, searched_depth, checked_at)
      select $1, k.id, g.day, 'naver', g.device, 'KR', 'ranked', g.position, 100, now()
      from unnest($2::text[], $3::date[], $4::text[], $5::smallint[]) as g (key, day, device, position)
      join batch.keyword k on k.workspace_id = $1 and k.key = g.key`,
    values: [
      workspace_id,
      observations.map(({ keyword }) => keyword),
      observations.map(({ day }) => day),
      observations.map(({ device }) => device),
      observations.map(({ position }) => position),
    ],
  })
  return { success: true, data: { inserted: rowCount } }
})

await http.listen({ host: '127.0.0.1', port: 0 })
process.send!({ port: (http.server.address() as AddressInfo).port })
