import type { AddressInfo } from 'node:net'
import { type App, openApp } from '../src/app.ts'
import { loadConfig } from '../src/config.ts'
import { scopes } from '../src/platform/access/access.ts'
import { newToken } from '../src/platform/access/token.ts'
import { insertToken } from '../src/platform/access/token-rows.ts'
import { openReadiness } from '../src/platform/http/readiness.ts'
import { buildServer } from '../src/server.ts'

/** The whole API as `serve` runs it, everything on, in this process, and a token that may do everything. */
export async function openService(wanted = 0): Promise<{ app: App; token: string; port: number }> {
  const app = await openApp(loadConfig(), { name: 'bench', role: 'service' })
  const token = newToken('test')
  await insertToken(app.pool, token, {
    name: 'bench',
    scopes,
    workspace: '*',
    account: '*',
    createdAt: app.clock(),
    expiresAt: null,
  })
  const http = await buildServer(app, openReadiness())
  await http.listen({ host: '127.0.0.1', port: wanted })
  return { app, token, port: (http.server.address() as AddressInfo).port }
}
