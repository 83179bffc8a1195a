import { readdirSync, readFileSync } from 'node:fs'

// The kernel counts processor time in hundredths of a second on every system Node runs on.
const ticksPerSecond = 100

type Taken = { readonly parent: number; readonly own: number; readonly ofEnded: number }

/** How long all threads of a process have had a processor. Only Linux tells it of another process, and of none that has ended. */
export function cpuSecondsOf(pid: number): number {
  return takenBy(pid)?.own ?? Number.NaN
}

/** The same of a whole PostgreSQL: its first process, all it has started, and those of them that have ended. */
export function cpuSecondsOfServer(postmaster: number): number {
  const server = takenBy(postmaster)
  if (!server) return Number.NaN
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  const started = pids.map((pid) => takenBy(Number(pid))).filter((one) => one?.parent === postmaster)
  return started.reduce((sum, one) => sum + one!.own, server.own + server.ofEnded)
}

export function parentOf(pid: number): number | undefined {
  return takenBy(pid)?.parent
}

function takenBy(pid: number): Taken | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The name may hold anything, and ends with the last bracket; the first field after it is the state.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    const seconds = (first: number) => (Number(fields[first]) + Number(fields[first + 1])) / ticksPerSecond
    return { parent: Number(fields[1]), own: seconds(11), ofEnded: seconds(13) }
  } catch {
    return undefined
  }
}
