import { randomBytes } from 'node:crypto'
import { mkdir, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { giveToFolderOwner, writePrivateFile } from './private-file.ts'
import { findProcess, isAlive, type ProcessMark } from './process-mark.ts'

/** Counts the caller as a user of the database until the returned function is called or the process ends. */
export async function enrolUser(folder: string): Promise<() => Promise<void>> {
  await mkdir(folder, { mode: 0o700 }).then(
    () => giveToFolderOwner(folder),
    (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    },
  )
  const path = join(folder, `${process.pid}-${randomBytes(4).toString('hex')}.json`)
  await writePrivateFile(path, JSON.stringify(await findProcess(process.pid)))
  return () => rm(path, { force: true })
}

/** How many users are alive. Those that died without leaving are struck off. */
export async function countUsers(folder: string): Promise<number> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  let alive = 0
  for (const name of names) {
    const mark = await readMark(join(folder, name))
    if (mark && (await isAlive(mark))) alive += 1
    else await rm(join(folder, name), { force: true })
  }
  return alive
}

async function readMark(path: string): Promise<ProcessMark | null> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as ProcessMark
  } catch (error) {
    const lost = error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === 'ENOENT'
    if (lost) return null
    throw error
  }
}
