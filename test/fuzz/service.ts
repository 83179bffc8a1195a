import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type App, openApp } from '../../src/app.ts'
import { seedPlans } from '../../src/billing/plans/seed-plans.ts'
import { readConfig } from '../../src/config.ts'
import { type Scope, scopes } from '../../src/platform/access/access.ts'
import { newToken } from '../../src/platform/access/token.ts'
import { insertToken } from '../../src/platform/access/token-rows.ts'
import { openReadiness } from '../../src/platform/http/readiness.ts'
import { buildServer } from '../../src/server.ts'
import { patience } from '../patience.ts'
import { openThrowawayServer } from '../throwaway-server.ts'

export type Grant = { scopes?: readonly Scope[]; workspace?: string | null; account?: string | null }

/** A whole service that listens, on a database that is there already. No worker runs: nothing changes unless asked. */
export type Service = {
  readonly app: App
  readonly url: string
  readonly port: number
  readonly webhookSecret: string
  readonly hintSecret: string
  makeToken(grant: Grant): Promise<string>
  close(): Promise<void>
}

export async function openService(
  databaseUrl: string,
  logLevel = 'silent',
  settings: Readonly<Record<string, string>> = {},
): Promise<Service> {
  const dataDir = mkdtempSync(join(tmpdir(), 'rankledger-fuzz-'))
  const webhookSecret = `whsec_${randomBytes(32).toString('base64')}`
  const hintSecret = randomBytes(24).toString('hex')
  const app = await openApp(
    readConfig({
      DATABASE_URL: databaseUrl,
      RANKLEDGER_DATA: dataDir,
      PORT: '0',
      LOG_LEVEL: logLevel,
      ...patience,
      VAULT_KEYS: `1:${randomBytes(32).toString('base64')}`,
      WEBHOOK_SECRETS: webhookSecret,
      HINT_SECRET: hintSecret,
      // Nobody listens there, and no worker asks.
      SERPAPI_API_KEY: 'sandbox-key-0001',
      SERPAPI_BASE_URL: 'http://127.0.0.1:1',
      SERPAPI_WORKSPACE_BUDGET_PER_DAY: '100',
      ...settings,
    }),
    { name: 'fuzz', role: 'service' },
  )
  await seedPlans(app.billing)
  const readiness = openReadiness()
  const http = await buildServer(app, readiness)
  const url = await http.listen({ host: '127.0.0.1', port: 0 })
  readiness.open()

  return {
    app,
    url,
    port: Number(new URL(url).port),
    webhookSecret,
    hintSecret,
    async makeToken(grant) {
      const token = newToken('test')
      const { workspace = '*', account = '*' } = grant
      await insertToken(app.pool, token, {
        name: 'fuzz',
        scopes:
          grant.scopes ??
          scopes.filter((scope) => scope !== 'admin' || (workspace === '*' && account === '*')),
        workspace,
        account,
        createdAt: app.clock(),
        expiresAt: null,
      })
      return token
    },
    async close() {
      await http.close()
      await app.close()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

/** A PostgreSQL that is thrown away, for commands that run outside the test runner. */
export async function openThrowawayDatabase(): Promise<{ url: string; close(): Promise<void> }> {
  const { url, close } = await openThrowawayServer('fuzz-pg', { jit: 'off' })
  // A run that is broken off leaves no server behind.
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => void close().finally(() => process.exit(1)))
  return { url, close }
}
