import { randomBytes } from 'node:crypto'
import { link, readFile, rm } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { writePrivateFile } from './private-file.ts'
import { findProcess, isAlive, type ProcessMark } from './process-mark.ts'

type Holder = ProcessMark & { readonly id: string }

/**
 * Runs `work` while no other process, and no other call in this one, holds the lock at `path`. A holder that died
 * is noticed and its lock taken over. Node has no flock, so the lock is a file that names its holder.
 */
export async function withLock<T>(path: string, work: () => Promise<T>, patienceMs = 360_000): Promise<T> {
  await acquire(path, patienceMs)
  try {
    return await work()
  } finally {
    await rm(path, { force: true })
  }
}

/** The file is linked into place complete, so nobody ever reads half a name. */
async function acquire(path: string, patienceMs: number): Promise<void> {
  const id = randomBytes(8).toString('hex')
  const claim = `${path}.${id}`
  const deadline = Date.now() + patienceMs
  await writePrivateFile(claim, JSON.stringify({ ...(await findProcess(process.pid)), id }))
  try {
    while (!(await linked(claim, path))) {
      const holder = await readHolder(path)
      if (!holder) continue
      if (!(await isAlive(holder))) {
        await breakLock(path, holder)
        continue
      }
      if (Date.now() > deadline) {
        throw new Error(
          `Process ${holder.pid} has held ${path} for too long: look at what it does, end it, and start again.`,
        )
      }
      await delay(15 + Math.random() * 20)
    }
  } finally {
    await rm(claim, { force: true })
  }
}

async function linked(claim: string, path: string): Promise<boolean> {
  try {
    await link(claim, path)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

async function readHolder(path: string): Promise<Holder | null> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as Holder
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    if (error instanceof SyntaxError) return { pid: 0, started: '', id: 'damaged' }
    throw error
  }
}

/**
 * Two processes may find the same dead holder. Only the one that holds the lock named after it may remove its file,
 * and looks again first: a plain "dead, so delete" could delete the lock the other has just taken.
 */
async function breakLock(path: string, dead: Holder): Promise<void> {
  await withLock(`${path}.break-${dead.id}`, async () => {
    const holder = await readHolder(path)
    if (holder?.id === dead.id) await rm(path, { force: true })
  })
}
