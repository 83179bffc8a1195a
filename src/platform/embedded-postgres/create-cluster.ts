import { randomBytes } from 'node:crypto'
import { chown, open, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { isRoot, makeFolderFor, runAs, type SystemAccount } from './account.ts'
import type { Cluster } from './cluster.ts'
import { copyTo, findMaker, hasAccount } from './own-account.ts'

/** The role the service signs in with, and its database. The role owns the database and is no superuser. */
export const databaseOwner = 'rankledger'

/**
 * Makes the database files beside their place and moves them there complete, so that a start interrupted at any line
 * leaves nothing half made. Without `durable` the system may keep them in memory for a while, which is for tests.
 */
export async function createCluster(cluster: Cluster, durable: boolean): Promise<void> {
  const parent = dirname(cluster.pgdata)
  await removeLeftovers(parent)
  const workshop = join(parent, `${draftPrefix}${randomBytes(4).toString('hex')}`)
  const maker = await chooseMaker(cluster.account)
  await makeFolderFor(maker, workshop)
  try {
    const draft = join(workshop, basename(cluster.pgdata))
    const handsOver = maker.uid !== cluster.account.uid
    await initialise({ ...cluster, account: maker }, draft, workshop, durable && !handsOver)
    await createDatabase({ ...cluster, account: maker }, draft)
    const made = handsOver ? await handOver(cluster.account, draft, durable) : draft
    await rename(made, cluster.pgdata)
    await syncFolder(parent)
  } finally {
    await rm(workshop, { recursive: true, force: true })
  }
}

/** The account itself if it has a name, which `initdb` insists on. */
async function chooseMaker(account: SystemAccount): Promise<SystemAccount> {
  return isRoot() && !(await hasAccount(account.uid)) ? findMaker(account) : account
}

async function handOver(account: SystemAccount, draft: string, durable: boolean): Promise<string> {
  const copy = `${draft}-copy`
  // From here on the maker cannot even enter.
  await chown(dirname(draft), 0, 0)
  await copyTo(account, draft, copy, durable)
  return copy
}

const draftPrefix = 'pgdata-draft-'

/** An initdb whose starter was killed may still be writing, so that a folder is not empty at the first attempt. */
async function removeLeftovers(parent: string): Promise<void> {
  for (const name of await readdir(parent)) {
    if (!name.startsWith(draftPrefix)) continue
    await rm(join(parent, name), { recursive: true, force: true, maxRetries: 10, retryDelay: 50 })
  }
}

/** The superuser's password is thrown away: nobody signs in as superuser, and repairs use single-user mode. */
async function initialise(
  cluster: Cluster,
  draft: string,
  workshop: string,
  durable: boolean,
): Promise<void> {
  const passwordFile = join(workshop, 'password')
  await writeFile(passwordFile, randomBytes(24).toString('base64url'), { mode: 0o600 })
  if (isRoot()) await chown(passwordFile, cluster.account.uid, cluster.account.gid)
  const made = await runAs(cluster.account, cluster.binaries.initdb, [
    `--pgdata=${draft}`,
    '--username=postgres',
    `--pwfile=${passwordFile}`,
    '--auth=scram-sha-256',
    '--data-checksums',
    // Text sorts and folds the same on every machine, whatever locales it has.
    '--encoding=UTF8',
    '--locale=C',
    '--locale-provider=builtin',
    '--builtin-locale=C.UTF-8',
    '--no-instructions',
    ...(durable ? [] : ['--no-sync']),
  ])
  if (!made.ok) throw new Error(failure(made.stderr))
}

/** Single-user mode takes one statement a line and ends with 0 even when one fails, so its words decide. */
async function createDatabase(cluster: Cluster, draft: string): Promise<void> {
  const statements = [
    `create role ${databaseOwner} login createdb password '${cluster.password}'`,
    `create database ${databaseOwner} owner ${databaseOwner}`,
    '',
  ]
  const words = ['--single', '-D', draft, '-c', 'log_min_error_statement=panic', 'postgres']
  const done = await runAs(cluster.account, cluster.binaries.postgres, words, statements.join('\n'))
  const complaint = /\b(ERROR|FATAL|PANIC):.*/.exec(done.stderr)
  if (!done.ok || complaint) throw new Error(failure(complaint?.[0] ?? done.stderr))
}

function failure(stderr: string): string {
  const lines = stderr.trim().split('\n')
  const reason = lines.find((line) => /error|fatal|panic/i.test(line)) ?? lines.at(-1) ?? ''
  return `PostgreSQL could not make its database files (${reason.trim()}): remove the cause and start again, or set DATABASE_URL.`
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r')
  await folder.sync().finally(() => folder.close())
}
