import type { AddressInfo } from 'node:net'
import fastify from 'fastify'
import pg from 'pg'

/** The floor of a read: a bare Fastify handler doing one prepared select. No token, no limit, no schema, no log. */
const pool = new pg.Pool({ connectionString: process.env['DATABASE_URL'], max: 20 })
const http = fastify()
http.get('/volumes/:keyword', async (request) => {
  const { keyword } = request.params as { keyword: string }
  const { rows } = await pool.query({
    name: 'bare',
    text: 'select month, volume, source, quality from batch.monthly_volume where key = $1 order by month limit 100',
    values: [keyword],
  })
  return { success: true, data: { months: rows } }
})
await http.listen({ host: '127.0.0.1', port: 0 })
process.send!({ port: (http.server.address() as AddressInfo).port })
