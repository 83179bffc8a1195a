import { randomBytes } from 'node:crypto'
import { chown, readFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { chooseAccount, isRoot, ownerOf } from './account.ts'
import { type PlatformPackage, prepareBinaries } from './binaries.ts'
import type { Cluster } from './cluster.ts'
import { type ClusterRecord, findRecord, recordPath, writeRecord } from './cluster-record.ts'
import { createCluster } from './create-cluster.ts'
import { chooseFolder } from './data-dir.ts'
import { giveTo, hasAccount, inventAccount } from './own-account.ts'
import { findPostmaster } from './postmaster.ts'

type Options = {
  readonly platformPackage: PlatformPackage
  readonly durable: boolean
  readonly warn: (sentence: string) => void
}

/** Finds the cluster of a data dir, or makes it. Call it under the data dir's lock. */
export async function openCluster(dataDir: string, options: Options): Promise<Cluster> {
  const record = (await findRecord(dataDir)) ?? (await beginRecord(dataDir, options.warn))
  const pgdata = resolve(dataDir, record.pgdata)
  await refuseAnothersFiles(pgdata)
  await takeFromKnownAccount(dataDir, pgdata)
  const account = await chooseAccount(dataDir, pgdata)
  const version = await findVersion(pgdata)
  if (version === null && record.created) throw new Error(missing(dataDir, pgdata))
  if (version !== null && version !== '18') throw new Error(madeByAnotherVersion(pgdata, version))

  const binaries = await prepareBinaries(account, dirname(pgdata), options.platformPackage)
  const cluster = { dataDir, pgdata, account, binaries, password: record.password }
  if (version === null) await createCluster(cluster, options.durable)
  if (!record.created) await writeRecord(dataDir, { ...record, created: true })
  return cluster
}

async function beginRecord(dataDir: string, warn: Options['warn']): Promise<ClusterRecord> {
  const account = await chooseAccount(dataDir, join(dataDir, 'pgdata'))
  const folder = await chooseFolder(dataDir, account, warn)
  const pgdata = join(folder, 'pgdata')
  // Files without their record have a password nobody knows. They may matter to someone, so they are not touched.
  if (await findVersion(pgdata)) throw new Error(recordMissing(dataDir, pgdata))

  const password = randomBytes(24).toString('base64url')
  const record = { pgdata: folder === dataDir ? 'pgdata' : pgdata, password, port: null, created: false }
  await writeRecord(dataDir, record)
  return record
}

/** The major version the files were made by; null when there are none. */
async function findVersion(pgdata: string): Promise<string | null> {
  try {
    return (await readFile(join(pgdata, 'PG_VERSION'), 'utf8')).trim()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

/**
 * Files in a data dir of root's belong to an account that nobody else has. Those that an earlier release made as `nobody`,
 * or whose number was given to somebody since, are handed over while no server has them open.
 */
async function takeFromKnownAccount(dataDir: string, pgdata: string): Promise<void> {
  if (!isRoot()) return
  const [owner, housed] = [await ownerOf(pgdata), await ownerOf(dataDir)]
  if (!owner || owner.uid === 0 || housed?.uid !== 0 || !(await hasAccount(owner.uid))) return
  if (await findPostmaster(pgdata)) return
  const account = await inventAccount()
  const folder = dirname(pgdata)
  if ((await ownerOf(folder))?.gid === owner.gid) await chown(folder, 0, account.gid)
  await giveTo(account, pgdata)
}

async function refuseAnothersFiles(pgdata: string): Promise<void> {
  const owner = await ownerOf(pgdata)
  if (isRoot() || !owner || owner.uid === process.getuid!()) return
  throw new Error(
    `The database files in ${pgdata} belong to account ${owner.uid} and this process runs as account ` +
      `${process.getuid!()}: run it as their owner or as root, or set DATABASE_URL.`,
  )
}

function missing(dataDir: string, pgdata: string): string {
  return (
    `The database files of ${dataDir} were in ${pgdata} and are not there any more: put them back, ` +
    `or delete ${recordPath(dataDir)} to begin with an empty database.`
  )
}

function recordMissing(dataDir: string, pgdata: string): string {
  return (
    `There are database files in ${pgdata} but ${recordPath(dataDir)}, which holds their password, is missing: ` +
    'put it back, or move the files away to begin with an empty database.'
  )
}

function madeByAnotherVersion(pgdata: string, version: string): string {
  return (
    `The database files in ${pgdata} were made by PostgreSQL ${version} and this release brings PostgreSQL 18: ` +
    'serve them with their own version and set DATABASE_URL to it.'
  )
}
