import { readdirSync, readFileSync } from 'node:fs'
import type { Stage } from './stage.ts'

// The kernel tells times in hundredths of a second, whatever its own clock does.
const msPerTick = 10

type Taken = { readonly parent: number; readonly own: number; readonly ofEnded: number }

/** The processor time that a process has taken so far, in milliseconds. Only Linux tells it of another process. */
export function cpuMsOf(pid: number): number {
  return takenBy(pid)?.own ?? Number.NaN
}

/** The same of a whole PostgreSQL: its first process, all it has started, and those of them that have ended. */
export async function cpuOfServer({ db }: Stage): Promise<() => number> {
  const { rows } = await db.query('select pg_backend_pid() as pid')
  const first = takenBy(rows[0].pid)?.parent
  return () => {
    const server = first === undefined ? undefined : takenBy(first)
    if (!server) return Number.NaN
    const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
    const started = pids.map((pid) => takenBy(Number(pid))).filter((one) => one?.parent === first)
    return started.reduce((sum, one) => sum + one!.own, server.own + server.ofEnded)
  }
}

function takenBy(pid: number): Taken | undefined {
  try {
    // The name of a process may hold anything, and ends with the last bracket.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ').map(Number)
    const [user, system, userOfEnded, systemOfEnded] = fields.slice(11, 15) as [
      number,
      number,
      number,
      number,
    ]
    return {
      parent: fields[1]!,
      own: (user + system) * msPerTick,
      ofEnded: (userOfEnded + systemOfEnded) * msPerTick,
    }
  } catch {
    return undefined
  }
}
