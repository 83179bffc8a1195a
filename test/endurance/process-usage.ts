import { readdirSync, readFileSync } from 'node:fs'

/** What a process holds and has used, as the kernel tells it. */
export type Usage = {
  readonly residentMb: number
  readonly openFiles: number
  readonly threads: number
  readonly cpuSeconds: number
}

// The kernel counts processor time in hundredths of a second on every system Node runs on.
const ticksPerSecond = 100

export function usageOf(pid: number): Usage {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const field = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1])
  return {
    residentMb: field('VmRSS') / 1024,
    threads: field('Threads'),
    openFiles: readdirSync(`/proc/${pid}/fd`).length,
    cpuSeconds: cpuSecondsOf(pid),
  }
}

/** All processes of a PostgreSQL server together. Memory that they share is counted once. */
export function postgresUsage(postmasterPid: number): { memoryMb: number; cpuSeconds: number } {
  const family = [postmasterPid, ...childrenOf(postmasterPid)]
  return {
    memoryMb: family.reduce((sum, pid) => sum + proportionalMb(pid), 0),
    // The postmaster is charged with the time of every session that has ended.
    cpuSeconds: family.reduce((sum, pid) => sum + cpuSecondsOf(pid), endedCpuSecondsOf(postmasterPid)),
  }
}

function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').map(Number).filter(Boolean)
}

function proportionalMb(pid: number): number {
  try {
    return Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1]) / 1024
  } catch {
    // A session that ended meanwhile holds nothing.
    return 0
  }
}

function cpuSecondsOf(pid: number): number {
  try {
    const stat = statOf(pid)
    return (Number(stat[11]) + Number(stat[12])) / ticksPerSecond
  } catch {
    return 0
  }
}

function endedCpuSecondsOf(pid: number): number {
  const stat = statOf(pid)
  return (Number(stat[13]) + Number(stat[14])) / ticksPerSecond
}

/** The fields after the name, which may itself hold spaces: the first is the state. */
function statOf(pid: number): string[] {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
  return text.slice(text.lastIndexOf(')') + 2).split(' ')
}
