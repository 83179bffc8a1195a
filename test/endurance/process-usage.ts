import { readdirSync, readFileSync } from 'node:fs'
import { cpuSecondsOf, cpuSecondsOfServer } from '../process-cpu.ts'

/** What a process holds and has used, as the kernel tells it. */
export type Usage = {
  readonly residentMb: number
  readonly openFiles: number
  readonly threads: number
  readonly cpuSeconds: number
}

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
    cpuSeconds: cpuSecondsOfServer(postmasterPid),
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
