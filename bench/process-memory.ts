import { readFileSync } from 'node:fs'

const fields = { peak: 'VmHWM', resident: 'VmRSS' } as const

/** What a process holds in memory, or held at most, in megabytes. Only Linux tells it of another process. */
export function memoryOf(pid: number, which: keyof typeof fields): number {
  if (process.platform !== 'linux') return Number.NaN
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(new RegExp(`${fields[which]}:\\s+(\\d+)`).exec(status)?.[1]) / 1024
}
