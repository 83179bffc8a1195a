import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** A process, told apart from every other one that ever gets the same pid. */
export type ProcessMark = { readonly pid: number; readonly started: string }

/** Null when no such process runs. A zombie counts as gone: it holds no file and serves nobody. */
export async function findProcess(pid: number): Promise<ProcessMark | null> {
  if (!(pid > 0 && exists(pid))) return null
  const seen = process.platform === 'linux' ? await readProc(pid) : await askPs(pid)
  if (!seen) return exists(pid) ? { pid, started: unreadable } : null
  return seen.state.startsWith('Z') ? null : { pid, started: seen.started }
}

/** A process whose start cannot be read (another account's, hidden) counts as alive: waiting is the safe error. */
export async function isAlive(mark: ProcessMark): Promise<boolean> {
  const found = await findProcess(mark.pid)
  if (!found) return false
  return [found.started, mark.started].includes(unreadable) || found.started === mark.started
}

/** The words the process was started with, joined by spaces; empty when it is gone or hidden. */
export async function commandLineOf(pid: number): Promise<string> {
  if (process.platform === 'linux') {
    const words = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
    return words.split('\0').join(' ').trim()
  }
  return ps(pid, 'command=')
}

const unreadable = 'unreadable'

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** Start times on Linux count from boot, so the boot's own id belongs to them. */
async function readProc(pid: number): Promise<{ state: string; started: string } | null> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8')
    const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8')
    // The second field is the program's name in brackets and may itself hold spaces and brackets.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return { state: fields[0] ?? '', started: `${boot.trim()}:${fields[19]}` }
  } catch {
    return null
  }
}

async function askPs(pid: number): Promise<{ state: string; started: string } | null> {
  const state = await ps(pid, 'stat=')
  const started = await ps(pid, 'lstart=')
  return state && started ? { state, started } : null
}

async function ps(pid: number, column: string): Promise<string> {
  const env = { PATH: '/bin:/usr/bin', LC_ALL: 'C', TZ: 'UTC' }
  const answer = await run('ps', ['-ww', '-o', column, '-p', String(pid)], { env }).catch(() => ({
    stdout: '',
  }))
  return answer.stdout.trim()
}
