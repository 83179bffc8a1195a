import { cpuSecondsOf, cpuSecondsOfServer, parentOf } from '../test/process-cpu.ts'
import type { Stage } from './stage.ts'

/** The processor time that a process has taken so far, in milliseconds. */
export function cpuMsOf(pid: number): number {
  return 1000 * cpuSecondsOf(pid)
}

/** The same of a stage's whole PostgreSQL, whenever it is asked. */
export async function cpuOfServer({ db }: Stage): Promise<() => number> {
  const { rows } = await db.query('select pg_backend_pid() as pid')
  const postmaster = parentOf(rows[0].pid)
  return () => (postmaster === undefined ? Number.NaN : 1000 * cpuSecondsOfServer(postmaster))
}
