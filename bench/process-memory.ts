import { readFileSync } from 'node:fs'

const fields = { peak: 'VmHWM', resident: 'VmRSS' } as const

/** What a process holds in memory, or held at most, in megabytes. Only Linux tells it of another process. */
export function memoryOf(pid: number, which: keyof typeof fields): number {
  if (process.platform !== 'linux') return Number.NaN
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(new RegExp(`${fields[which]}:\\s+(\\d+)`).exec(status)?.[1]) / 1024
}

const ticksPerSecond = 100

/** How long all threads of a process have had a processor, in seconds. */
export function cpuSecondsOf(pid: number): number {
  if (process.platform !== 'linux') return Number.NaN
  // Its name, which may hold spaces, stands in brackets.
  const [, after] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')
  const [user, system] = after!.split(' ').slice(11, 13)
  return (Number(user) + Number(system)) / ticksPerSecond
}
