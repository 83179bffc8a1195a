import { accessSync, constants, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'

const memory = '/dev/shm'
// Four times what the data of a whole run grows to.
const roomBytes = 2 * 2 ** 30

/**
 * Where a run keeps what it throws away: in memory, where the system offers that as a folder with enough room. A database is
 * hundreds of small files, and each test makes one; on a disk that takes ten times as long. Who sets TMPDIR has chosen.
 */
export function quickestFolder(): string {
  if (process.env['TMPDIR'] !== undefined) return tmpdir()
  try {
    accessSync(memory, constants.W_OK)
    const { bavail, bsize } = statfsSync(memory)
    if (Math.min(bavail * bsize, process.availableMemory()) >= roomBytes) return memory
  } catch {
    // There is none, or it is not ours to write to.
  }
  return tmpdir()
}
