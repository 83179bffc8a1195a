import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type pg from 'pg'
import { findRecord } from '../../src/platform/embedded-postgres/cluster-record.ts'
import { openEmbeddedPostgres } from '../../src/platform/embedded-postgres/embedded-postgres.ts'
import { openPatientPool } from '../patience.ts'

export type Database = {
  readonly url: string
  readonly port: number
  readonly password: string
  /** To look on and to judge; no process of the service uses it. */
  readonly observer: pg.Pool
  /** Kills the postmaster with kill -9. Another is started at once; resolves when that one has recovered and answers. */
  kill(): Promise<void>
  /** Resolves when it takes questions. */
  whenUp(): Promise<void>
  serverLog(): Promise<string>
  close(): Promise<void>
}

/** A PostgreSQL with the settings of production: what is committed stays, also when it is killed. */
export async function openDatabase(dataDir: string): Promise<Database> {
  const embedded = await openEmbeddedPostgres({ dataDir, keepAlive: true, onWarning: () => {} })
  const observer = openPatientPool(embedded.url, 3, 'chaos observer')
  const { pgdata } = (await findRecord(dataDir))!

  const postmasterPid = async () =>
    Number((await readFile(join(resolve(dataDir, pgdata), 'postmaster.pid'), 'utf8')).split('\n')[0])
  const answers = () =>
    observer.query('select 1').then(
      () => true,
      () => false,
    )

  return {
    url: embedded.url,
    port: Number(new URL(embedded.url).port),
    password: embedded.password,
    observer,
    async kill() {
      const killed = await postmasterPid()
      process.kill(killed, 'SIGKILL')
      // Sessions of the killed one may answer for a moment; none of them is left once another has started.
      const isReplaced = () =>
        postmasterPid().then(
          (pid) => pid !== killed,
          () => false,
        )
      await until(async () => (await isReplaced()) && (await answers()))
    },
    whenUp: () => until(answers),
    serverLog: () => readFile(join(dataDir, 'postgres.log'), 'utf8').catch(() => ''),
    async close() {
      await observer.end()
      await embedded.close()
    },
  }
}

const askAgainMs = 50

/** Asks again and again until the answer is yes. For what gives no sign of itself. */
export async function until(holds: () => Promise<boolean>, withinMs = 600_000): Promise<void> {
  const deadline = performance.now() + withinMs
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`It did not come about within ${withinMs} ms.`)
    await new Promise((resolve) => setTimeout(resolve, askAgainMs))
  }
}
