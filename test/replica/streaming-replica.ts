import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chown, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { findPlatformPackage } from '../../src/platform/embedded-postgres/binaries.ts'
import { findRecord, writeRecord } from '../../src/platform/embedded-postgres/cluster-record.ts'
import {
  type EmbeddedPostgres,
  openEmbeddedPostgres,
} from '../../src/platform/embedded-postgres/embedded-postgres.ts'
import { openCluster } from '../../src/platform/embedded-postgres/open-cluster.ts'

/** A primary and a real streaming replica of it, whose replay can be paused. */
export type ReplicatedServer = {
  readonly primaryUrl: string
  readonly replicaUrl: string
  pause(): Promise<void>
  resume(): Promise<void>
  /** Waits until the replica has replayed all that is written by now. */
  caughtUp(): Promise<void>
  stopReplica(): Promise<void>
  startReplica(): Promise<void>
  promote(): Promise<void>
  close(): Promise<void>
}

const quick = { fsync: 'off', full_page_writes: 'off', wal_level: 'replica', max_connections: '100' }

export async function openReplicatedServer(): Promise<ReplicatedServer> {
  const [primaryDir, replicaDir] = [await newDir('primary'), await newDir('replica')]
  const platformPackage = await findPlatformPackage()
  const cluster = await openCluster(primaryDir, { platformPackage, durable: false, warn: () => {} })
  // Nobody knows the superuser's password; in this cluster, which lives for a test, it needs none.
  const rules = join(cluster.pgdata, 'pg_hba.conf')
  await writeFile(rules, `host all postgres 127.0.0.1/32 trust\n${await readFile(rules, 'utf8')}`)
  const primary = await openEmbeddedPostgres({ dataDir: primaryDir, settings: quick })
  const { port, password } = new URL(primary.url)
  const superuser = new pg.Client({
    host: '127.0.0.1',
    port: Number(port),
    user: 'postgres',
    database: 'rankledger',
  })
  await superuser.connect()
  for (const grant of grants) await superuser.query(grant)

  const pgdata = join(
    dirname(cluster.pgdata),
    `${basename(cluster.pgdata)}-${randomBytes(4).toString('hex')}`,
  )
  await superuser.query("select pg_backup_start('test', true)")
  await promisify(execFile)('cp', ['-a', cluster.pgdata, pgdata])
  const { rows } = await superuser.query('select labelfile from pg_backup_stop(false)')
  await superuser.end()
  await rm(join(pgdata, 'postmaster.pid'))
  const { uid, gid } = await stat(cluster.pgdata)
  for (const [name, text] of Object.entries({ backup_label: rows[0].labelfile, 'standby.signal': '' })) {
    await writeFile(join(pgdata, name), text)
    await chown(join(pgdata, name), uid, gid)
  }
  await writeRecord(replicaDir, { ...(await findRecord(primaryDir))!, pgdata, port: null, created: true })
  const conninfo = `host=127.0.0.1 port=${port} user=rankledger password=${password}`
  const startReplica = () =>
    openEmbeddedPostgres({ dataDir: replicaDir, settings: { ...quick, primary_conninfo: conninfo } })
  let replica: EmbeddedPostgres = await startReplica()

  const onReplica = (text: string) => ask(replica.url, text)
  return {
    primaryUrl: primary.url,
    replicaUrl: replica.url,
    pause: async () => void (await onReplica('select pg_wal_replay_pause()')),
    resume: async () => void (await onReplica('select pg_wal_replay_resume()')),
    async caughtUp() {
      const [{ at }] = await ask(primary.url, 'select pg_current_wal_lsn()::text as at')
      const reached = `select coalesce(pg_last_wal_replay_lsn() >= '${at}', false) as reached`
      while (!(await onReplica(reached))[0].reached) await new Promise((resolve) => setTimeout(resolve, 20))
    },
    stopReplica: () => replica.close(),
    async startReplica() {
      replica = await startReplica()
    },
    promote: async () => void (await onReplica('select pg_promote()')),
    async close() {
      await replica.close()
      await primary.close()
      for (const path of [primaryDir, replicaDir, pgdata]) await rm(path, { recursive: true, force: true })
    },
  }
}

const grants = [
  'alter role rankledger replication',
  'grant execute on function pg_wal_replay_pause() to rankledger',
  'grant execute on function pg_wal_replay_resume() to rankledger',
  'grant execute on function pg_promote(boolean, integer) to rankledger',
]

function newDir(purpose: string): Promise<string> {
  return mkdtemp(join(tmpdir(), `rankledger-${purpose}-`))
}

// biome-ignore lint/suspicious/noExplicitAny: rows of a test's own questions
async function ask(url: string, text: string): Promise<any> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}
