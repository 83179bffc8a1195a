import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { scopes } from '../../src/platform/access/access.ts'
import { newToken } from '../../src/platform/access/token.ts'
import { insertToken } from '../../src/platform/access/token-rows.ts'
import { urlThrough } from '../postgres.ts'
import { type Database, openDatabase } from './database.ts'
import { type Member, openMember } from './member.ts'
import type { ChaosProvider } from './provider.ts'
import { openProxy, type Tap, type TcpProxy } from './proxy.ts'

export const linkNames = ['client', 'database', 'session', 'provider', 'webhook'] as const
export type LinkName = (typeof linkNames)[number]
export type Link = { readonly name: LinkName; readonly proxy: TcpProxy }

/** All processes of one installation, each behind links of its own. */
export type Fleet = {
  readonly database: Database
  readonly provider: ChaosProvider
  readonly serves: readonly Serve[]
  readonly works: readonly Member[]
  readonly sandbox: Member
  readonly members: readonly Member[]
  readonly links: readonly Link[]
  /** What clients show. No process ever prints it. */
  readonly token: string
  readonly secrets: readonly string[]
  readonly vaultKeys: readonly { readonly version: number; readonly key: Buffer }[]
  /** Processes that ended although nobody asked them to, or not as they should. */
  readonly mishaps: readonly string[]
  /** Both serves take traffic. */
  isServing(): Promise<boolean>
  /** Everything that any process ever wrote. */
  outputs(): Promise<string[]>
  close(): Promise<void>
}

export type Serve = Member & { readonly url: string }

/** Watches what goes to the provider, and what the provider tells. */
export type Taps = { readonly provider: () => Tap; readonly webhook: () => Tap }

export async function openFleet(provider: ChaosProvider, taps: Taps): Promise<Fleet> {
  const ground = await openGround(provider)
  const { database, links, mishaps, secrets, vaultKeys } = ground
  const serves: Serve[] = []
  let turn = 0
  const webhook = await ground.link('webhook', () => serves[turn++ % serves.length]?.port(), taps.webhook)
  const sandbox = openSimulator(ground, webhook)
  const reach = { sandbox, tap: taps.provider }
  for (const name of ['serve 1', 'serve 2']) serves.push(await openServe(ground, name, reach))
  const works = [await openWork(ground, 'work 1', reach), await openWork(ground, 'work 2', reach)]
  const members = [...serves, ...works, sandbox]

  // The first one makes the tables.
  await serves[0]!.start()
  await Promise.all(members.slice(1).map((member) => member.start()))
  const token = newToken('test')
  const grant = {
    name: 'chaos',
    scopes,
    workspace: '*',
    account: '*',
    createdAt: new Date(),
    expiresAt: null,
  }
  await insertToken(database.observer, token, grant)

  return {
    database,
    provider,
    serves,
    works,
    sandbox,
    members,
    links,
    token,
    secrets: [token, ...secrets],
    vaultKeys,
    mishaps,
    isServing: async () => (await Promise.all(serves.map((serve) => serve.isReady()))).every(Boolean),
    async outputs() {
      return [...members.flatMap((member) => member.outputs()), await database.serverLog()]
    },
    async close() {
      await Promise.all(members.map((member) => member.stop()))
      await ground.close()
    },
  }
}

/** What the processes stand on: the database, the settings they share, and the links between them. */
type Ground = {
  readonly database: Database
  readonly provider: ChaosProvider
  readonly environment: Record<string, string>
  readonly secrets: readonly string[]
  readonly vaultKeys: Fleet['vaultKeys']
  readonly links: readonly Link[]
  readonly mishaps: string[]
  link(name: LinkName, target: () => number | undefined, tap?: () => Tap): Promise<TcpProxy>
  close(): Promise<void>
}

async function openGround(provider: ChaosProvider): Promise<Ground> {
  const folders = ['database', 'data'].map((name) => mkdtempSync(join(tmpdir(), `rankledger-chaos-${name}-`)))
  const [databaseDir, dataDir] = folders as [string, string]
  const database = await openDatabase(databaseDir)
  const webhookSecret = `whsec_${randomBytes(32).toString('base64')}`
  const vaultKey = randomBytes(32).toString('base64')
  const links: Link[] = []
  return {
    database,
    provider,
    environment: {
      MODE: 'sandbox',
      PORT: '0',
      RANKLEDGER_DATA: dataDir,
      // Shown in the banner by contract, so that no client uses it here.
      BOOTSTRAP_TOKEN: newToken('test'),
      WEBHOOK_SECRETS: webhookSecret,
      VAULT_KEYS: `1:${vaultKey}`,
      PROVIDER_SECRET_KEY: provider.secretKey,
      ...provider.environment,
    },
    secrets: [webhookSecret, vaultKey, provider.secretKey, ...provider.secrets, database.password],
    vaultKeys: [{ version: 1, key: Buffer.from(vaultKey, 'base64') }],
    links,
    mishaps: [],
    async link(name, target, tap) {
      const proxy = await openProxy({ target, ...(tap && { tap }) })
      links.push({ name, proxy })
      return proxy
    },
    async close() {
      await Promise.all(links.map(({ proxy }) => proxy.close()))
      await database.close()
      for (const folder of folders) rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** The provider's database is its own affair: no link of ours leads there. */
function openSimulator({ database, provider, environment, mishaps }: Ground, webhook: TcpProxy): Member {
  return openMember({
    role: 'sandbox',
    name: 'sandbox',
    args: ['sandbox', '--as', provider.name, '--webhook-url', urlOf(webhook) + provider.webhookPath],
    environment: { ...environment, DATABASE_URL: database.url },
    database,
    isReady: async (port) => (await ask(`http://127.0.0.1:${port}/admin/faults`, provider.secretKey)) === 200,
    onMishap: (what) => mishaps.push(what),
  })
}

type Reach = { readonly sandbox: Member; readonly tap: () => Tap }

async function openServe(ground: Ground, name: string, reach: Reach): Promise<Serve> {
  const door = await ground.link('client', () => serve.port())
  const url = urlOf(door)
  const member = openMember({
    role: 'serve',
    name,
    args: ['serve', '--no-worker'],
    environment: await environmentOf(ground, reach),
    database: ground.database,
    isReady: async () => (await ask(`${url}/readyz`)) === 200,
    onMishap: (what) => ground.mishaps.push(what),
  })
  const serve: Serve = { ...member, url }
  return serve
}

async function openWork(ground: Ground, name: string, reach: Reach): Promise<Member> {
  const { database } = ground
  let leases = 0
  const session = await ground.link(
    'session',
    () => database.port,
    () => leaseTap(() => leases++),
  )
  return openMember({
    role: 'work',
    name,
    args: ['work'],
    environment: {
      ...(await environmentOf(ground, reach)),
      DATABASE_URL_SESSION: urlThrough(database.url, session),
    },
    database,
    onStart: () => {
      leases = 0
    },
    isReady: async () => leases > 0,
    onMishap: (what) => ground.mishaps.push(what),
  })
}

/** What every process of the service reaches out for, each over a link of its own. */
async function environmentOf(
  { database, environment, link }: Ground,
  { sandbox, tap }: Reach,
): Promise<Record<string, string>> {
  return {
    ...environment,
    DATABASE_URL: urlThrough(database.url, await link('database', () => database.port)),
    PROVIDER_BASE_URL: urlOf(await link('provider', () => sandbox.port(), tap)),
  }
}

function urlOf({ port }: TcpProxy): string {
  return `http://127.0.0.1:${port}`
}

/** The status of an answer, 0 if none comes. */
async function ask(url: string, key?: string): Promise<number> {
  try {
    const headers = key === undefined ? {} : { authorization: `Bearer ${key}` }
    const answer = await fetch(url, { headers, signal: AbortSignal.timeout(10_000) })
    await answer.text()
    return answer.status
  } catch {
    return 0
  }
}

/** A worker works once its lease is on the list of live workers, and the database has confirmed it. */
function leaseTap(onLease: () => void): Tap {
  let asked = false
  return {
    sent(bytes) {
      if (bytes.includes('insert into platform.worker')) asked = true
    },
    answered() {
      if (asked) onLease()
      asked = false
    },
  }
}
